package datasets

import (
	"os"
	"path/filepath"
	"testing"

	"gpipebench/internal/testkit"
)

// A digest depends on the content of files, and not on their names.
func TestDigest(t *testing.T) {
	dir := t.TempDir()
	digest := func(kind, content, other string) string {
		t.Helper()
		one, two := filepath.Join(dir, "one-"+kind), filepath.Join(dir, "two-"+kind)
		for name, text := range map[string]string{one: content, two: other} {
			testkit.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		}
		spec := "text:" + one
		if kind[0] == 'p' {
			spec = "parallel:" + one + "," + two
		}
		s := testkit.Must(Open(spec, Config{SeqLen: 12}))(t)
		return Digest(s)
	}
	const text, lines, others = "a text that is long enough to be cut into windows, some of them held out, and some for training: so it goes on for a while, until there is enough of it in any case", "a b\nc d\ne f\ng h\n", "1 2\n3 4\n5 6\n7 8\n"
	seen := map[string]bool{}
	for _, d := range []string{
		digest("t1", text, ""), digest("t2", text+"!", ""),
		digest("p1", lines, others), digest("p2", others, lines), digest("p3", lines, "1 2\n3 4\n5 6\n7 9\n"),
	} {
		if len(d) != 64 || seen[d] {
			t.Errorf("digest %q", d)
		}
		seen[d] = true
	}
	if digest("t3", text, "") != digest("t1", text, "") || digest("p4", lines, others) != digest("p1", lines, others) {
		t.Error("other names make another digest")
	}
	for _, spec := range []string{"synthetic", "synthetic-images", "synthetic-digits"} {
		s := testkit.Must(Open(spec, Config{SyntheticImages: SyntheticImagesConfig{Train: 4, HeldOut: 4}}))(t)
		testkit.Equal(t, Digest(s), "", "%s: digest", spec)
	}
}
