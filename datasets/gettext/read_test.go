package gettext

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gpipebench/datasets/gettext/gettexttest"
	"gpipebench/internal/testkit"
)

func TestReadErrors(t *testing.T) {
	dir := t.TempDir()
	good := gettexttest.Catalog(binary.LittleEndian, gettexttest.UTF8, entry{"Open the file", "Datei öffnen"})
	folder := func(language string) string { return filepath.Join(dir, language, "LC_MESSAGES") }
	put := func(language, name string, data []byte) string {
		gettexttest.Write(t, dir, language, name, data)
		return filepath.Join(folder(language), name)
	}
	cut := put("cut", "a.mo", good[:len(good)-1])
	text := put("text", "a.mo", []byte("hello, world"))
	large := put("large", "a.mo", good)
	testkit.NoError(t, os.Truncate(large, MaxCatalog+1))
	put("loop", "b.mo", good)
	loop := filepath.Join(folder("loop"), "a.mo")
	circle := filepath.Join(dir, "circle")
	for link, to := range map[string]string{loop: "a.mo", circle: "circle"} {
		testkit.NoError(t, os.Symlink(to, link))
	}
	put("none", "a.txt", good)
	for language, want := range map[string]string{
		"cut":     cut + fmt.Sprintf(": byte 52: a text of 13 bytes at byte %d, want one that ends within the file's %d bytes, with a byte 0 after it", len(good)-14, len(good)-1),
		"text":    text + ": byte 0: begins with 68 65 6c 6c, want a gettext catalog: de 12 04 95 or 95 04 12 de",
		"large":   large + ": 67108865 bytes, want a gettext catalog of up to 64 MiB",
		"loop":    loop + ": too many levels of symbolic links",
		"circle":  folder("circle") + ": too many levels of symbolic links",
		"none":    folder("none") + ": no catalogs, want *.mo",
		"missing": folder("missing") + ": no such file or directory",
		"a\nb":    fmt.Sprintf("%q: no such file or directory", folder("a\nb")),
	} {
		if c, err := Read(dir, []string{language}); err == nil || err.Error() != "gettext: "+want || c != nil {
			t.Errorf("%s: error %v, want gettext: %s", language, err, want)
		}
	}
	_, err := Read(dir, nil)
	testkit.FailsFirst(t, err, "gettext: "+dir)
	empty := t.TempDir()
	gettexttest.Write(t, empty, "en_GB", "a.mo", good)
	for name, want := range map[string]string{
		empty:                           "no catalogs of other languages than English, want LANG/LC_MESSAGES/*.mo",
		filepath.Join(empty, "missing"): "no such file or directory",
		large:                           "not a directory",
	} {
		_, err := Read(name, nil)
		testkit.Equal(t, fmt.Sprint(err), "gettext: "+name+": "+want)
	}
}
