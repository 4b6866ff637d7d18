package datasets

import (
	"path/filepath"
	"testing"

	"gpipebench/datasets/gettext/gettexttest"
	"gpipebench/internal/testkit"
)

// A digest depends on the content of files, and not on their names.
func TestDigest(t *testing.T) {
	digest := func(spec string) string {
		t.Helper()
		return Digest(testkit.Must(Open(spec, Config{}))(t))
	}
	text := func(content string) string {
		return "text:" + filepath.Join(writeFiles(t, map[string][]byte{"a": []byte(content)}), "a")
	}
	catalogs := func(language string, n int) string {
		return "gettext:" + gettexttest.Folder(t, map[string]int{language: n})
	}
	seen := map[string]bool{}
	for _, d := range []string{
		digest(text(lines(350, "a"))), digest(text(lines(350, "b"))),
		digest(catalogs("de", 60)), digest(catalogs("de", 61)), digest(catalogs("fr", 60)),
	} {
		if len(d) != 64 || seen[d] {
			t.Errorf("digest %q", d)
		}
		seen[d] = true
	}
	if !seen[digest(text(lines(350, "a")))] || !seen[digest(catalogs("de", 60))] {
		t.Error("other names make another digest")
	}
	for _, spec := range []string{"synthetic", "synthetic-images", "synthetic-digits"} {
		testkit.Equal(t, digest(spec), "", "%s: digest", spec)
	}
}
