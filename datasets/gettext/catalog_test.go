package gettext

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gpipebench/datasets/gettext/gettexttest"
	"gpipebench/internal/testkit"
)

type entry = gettexttest.Message

// orders are the byte orders of catalogs.
var orders = []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian}

// parsed returns a catalog's messages as texts.
func parsed(t *testing.T, file []byte) (messages []entry, charset string) {
	t.Helper()
	all, charset, err := parse(file)
	testkit.NoError(t, err)
	for _, m := range all {
		messages = append(messages, entry{string(m.english), string(m.translation)})
	}
	return messages, charset
}

func TestParse(t *testing.T) {
	for _, order := range orders {
		file := gettexttest.Catalog(order,
			entry{"", "Project-Id-Version: x\nContent-Type: text/plain; charset=iso-8859-15\nX: y\n"},
			entry{"a menu\x04Open", "Öffnen"},
			entry{"one file\x00some files", "eine Datei\x00einige Dateien\x00viele Dateien"},
			entry{"lost", ""},
			entry{"plain", "einfach"})
		got, charset := parsed(t, file)
		want := []entry{{"Open", "Öffnen"}, {"one file", "eine Datei"}, {"plain", "einfach"}}
		testkit.EqualAll(t, got, want, "%v", order)
		testkit.Equal(t, charset, "iso-8859-15", "%v: charset", order)
		if got, charset := parsed(t, gettexttest.Catalog(order)); got != nil || charset != "" {
			t.Errorf("%v: an empty catalog has %q in %q", order, got, charset)
		}
	}
}

// Catalogs of msgfmt, in both byte orders and with texts that depend on the
// system.
func TestParseGolden(t *testing.T) {
	want := []entry{{"One file was copied.", "Eine Datei wurde kopiert."}, {"The file was not found.", "Die Datei wurde nicht gefunden."}, {"_Close the window", "Fenster _schließen"}}
	for _, name := range []string{"little", "big"} {
		file := testkit.Must(os.ReadFile("testdata/small-" + name + ".mo"))(t)
		got, charset := parsed(t, file)
		slices.SortFunc(got, func(a, b entry) int { return strings.Compare(a[0], b[0]) })
		testkit.EqualAll(t, got, want, "%s", name)
		testkit.Equal(t, charset, "UTF-8", "%s: charset", name)
	}
}

func TestParseErrors(t *testing.T) {
	file := gettexttest.Catalog(binary.LittleEndian, gettexttest.UTF8, entry{"one two three", "eins zwei drei"})
	set := func(at int, number uint32) []byte {
		b := bytes.Clone(file)
		binary.LittleEndian.PutUint32(b[at:], number)
		return b
	}
	for _, c := range []struct {
		file []byte
		want string
	}{
		{nil, "byte 0: ends in its first number, want a gettext catalog"},
		{file[:3], "byte 3: ends in its first number, want a gettext catalog"},
		{[]byte("msgid \"\""), "byte 0: begins with 6d 73 67 69, want a gettext catalog: de 12 04 95 or 95 04 12 de"},
		{file[:20], "byte 20: ends in the header, want 28 bytes"},
		{set(4, 2<<16), "byte 4: revision 2 of the format, want 0 or 1"},
		{set(8, 1<<32-1), fmt.Sprintf("byte 12: a table of 4294967295 messages at byte 28, want one that ends within the file's %d bytes", len(file))},
		{set(16, 1<<32-1), fmt.Sprintf("byte 16: a table of 2 messages at byte 4294967295, want one that ends within the file's %d bytes", len(file))},
		{set(28, 1<<32-1), fmt.Sprintf("byte 28: a text of 4294967295 bytes at byte 60, want one that ends within the file's %d bytes, with a byte 0 after it", len(file))},
		{set(36, 5), fmt.Sprintf("byte 36: a text of 5 bytes at byte 61, want one that ends within the file's %d bytes, with a byte 0 after it", len(file))},
		{file[:len(file)-1], fmt.Sprintf("byte 52: a text of 14 bytes at byte %d, want one that ends within the file's %d bytes, with a byte 0 after it", len(file)-15, len(file)-1)},
	} {
		got, _, err := parse(c.file)
		if err == nil || err.Error() != c.want || got != nil {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

// Texts that overlap could make a small file fill any memory.
func TestParseOverlap(t *testing.T) {
	const n = 1 << 16
	order := binary.LittleEndian
	file := order.AppendUint32(nil, magic)
	for _, number := range []uint32{0, n, headerSize, headerSize, 0, 0} { // one table for both
		file = order.AppendUint32(file, number)
	}
	for i := range uint32(n) { // each text is the rest of the file
		at := uint32(headerSize + entrySize*n)
		file = order.AppendUint32(order.AppendUint32(file, n-i), at+i)
	}
	file = append(append(file, bytes.Repeat([]byte("a"), n)...), 0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := parse(file)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.HasSuffix(err.Error(), fmt.Sprintf("texts that overlap: more than the file's %d bytes", len(file))) {
		t.Errorf("error %v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("it took %d bytes", took)
	}
}

// For any file, the result is an error of one line, or messages that together
// are no longer than the file; written in the other byte order they are the
// same.
func FuzzCatalog(f *testing.F) {
	for _, order := range orders {
		whole := gettexttest.Catalog(order, gettexttest.UTF8, entry{"c\x04a\x00b", "x\x00y"}, entry{"one two three", "eins zwei drei"})
		f.Add(whole)
		f.Add(whole[:len(whole)-3])
		f.Add(gettexttest.Catalog(order))
		f.Add(gettexttest.Catalog(order, entry{"", "charset=CHARSET"}, entry{"\x04", "\x00"}, entry{"", ""}))
	}
	for _, name := range []string{"little", "big"} {
		f.Add(testkit.Must(os.ReadFile("testdata/small-" + name + ".mo"))(f))
	}
	f.Add([]byte("GIF89a"))
	f.Fuzz(func(t *testing.T, file []byte) {
		messages, charset, err := parse(file)
		if err != nil {
			if m := err.Error(); messages != nil || strings.ContainsAny(m, "\n\r") || !strings.HasPrefix(m, "byte ") {
				t.Fatalf("%q beside error %q", messages, m)
			}
			return
		}
		total := 0
		var again []entry
		for _, m := range messages {
			total += len(m.english) + len(m.translation)
			if len(m.translation) == 0 || bytes.ContainsAny(m.english, "\x00") || bytes.ContainsAny(m.translation, "\x00") {
				t.Fatalf("message %q", m)
			}
			if text := decoder(charset); text != nil {
				if cleaned, ok := clean(text(m.english)); ok && (strings.Join(strings.Fields(cleaned), " ") != cleaned || !printable(cleaned)) {
					t.Fatalf("%q becomes %q", m.english, cleaned)
				}
			}
			if len(m.english) > 0 && !bytes.Contains(m.english, []byte(afterContext)) {
				again = append(again, entry{string(m.english), string(m.translation)})
			}
		}
		if total > len(file) {
			t.Fatalf("%d bytes in messages of %d", total, len(file))
		}
		for _, order := range orders {
			if got, _ := parsed(t, gettexttest.Catalog(order, again...)); !reflect.DeepEqual(got, again) {
				t.Fatalf("%q, then %q", again, got)
			}
		}
	})
}

func TestDecoder(t *testing.T) {
	for charset, c := range map[string]struct{ bytes, want string }{
		"":            {"d\xc3\xa9j\xc3\xa0", "déjà"},
		"utf-8":       {"d\xe9j\xe0", "d\xe9j\xe0"}, // not UTF-8: a rule leaves it out
		"ISO-8859-1":  {"d\xe9j\xe0", "déjà"},
		"iso-8859-15": {"\xa4", "€"},
		"KOI8-R":      {"\xc4\xc1", "да"},
		"EUC-JP":      {"\xc6\xfc", "日"},
		"Big5":        {"\xa4\xa4", "中"},
		"GB2312":      {"\xd6\xd0", "中"},
		"EUC-KR":      {"\xc7\xd1", "한"},
	} {
		text := decoder(charset)
		if text == nil {
			t.Errorf("%s is not known", charset)
		} else if got := text([]byte(c.bytes)); got != c.want {
			t.Errorf("%s: % x is %q, want %q", charset, c.bytes, got, c.want)
		}
	}
	for _, charset := range []string{"GEORGIAN-PS", "klingon", "x\ny"} {
		if decoder(charset) != nil {
			t.Errorf("%s is known", charset)
		}
	}
}
