// Package gettexttest makes catalogs for tests.
package gettexttest

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// Message is an entry of a catalog: an English text and its translation.
type Message [2]string

// UTF8 is the entry that describes a catalog in UTF-8.
var UTF8 = Message{"", "Language: xx\nContent-Type: text/plain; charset=UTF-8\n"}

// Catalog returns a catalog in the format of GNU gettext, in a byte order, as
// msgfmt makes it without a hash table.
func Catalog(order binary.AppendByteOrder, messages ...Message) []byte {
	const header = 28
	n := uint32(len(messages))
	file := order.AppendUint32(nil, 0x950412de)
	for _, number := range []uint32{0, n, header, header + 8*n, 0, header + 16*n} {
		file = order.AppendUint32(file, number)
	}
	at := header + 16*n
	entry := func(text string) {
		file = order.AppendUint32(order.AppendUint32(file, uint32(len(text))), at)
		at += uint32(len(text)) + 1
	}
	for _, m := range messages {
		entry(m[0])
	}
	for _, m := range messages {
		entry(m[1])
	}
	for _, m := range messages {
		file = append(append(file, m[0]...), 0)
	}
	for _, m := range messages {
		file = append(append(file, m[1]...), 0)
	}
	return file
}

// Write writes a catalog of a language below a directory.
func Write(t testing.TB, dir, language, name string, catalog []byte) {
	t.Helper()
	folder := filepath.Join(dir, language, "LC_MESSAGES")
	testkit.NoError(t, os.MkdirAll(folder, 0o755))
	testkit.NoError(t, os.WriteFile(filepath.Join(folder, name), catalog, 0o600))
}

// Folder writes catalogs of invented languages and returns their directory. Each
// has the first sentences of one list, as many as sizes say; a translation has
// the words in capitals and in reverse, with the language's name after each.
func Folder(t testing.TB, sizes map[string]int) string {
	t.Helper()
	dir := t.TempDir()
	for language, n := range sizes {
		messages := []Message{UTF8}
		for i := range n {
			english := Sentence(i)
			words := strings.Fields(strings.TrimSuffix(english, "."))
			for a, b := 0, len(words)-1; a < b; a, b = a+1, b-1 {
				words[a], words[b] = words[b], words[a]
			}
			for k, w := range words {
				words[k] = strings.ToUpper(w) + language
			}
			messages = append(messages, Message{english, strings.Join(words, " ") + "."})
		}
		Write(t, dir, language, "program.mo", Catalog(binary.LittleEndian, messages...))
	}
	return dir
}

// Sentence is an English sentence by its number, another for each of 2100.
func Sentence(i int) string {
	of := func(words string, i int) string {
		all := strings.Fields(words)
		return all[i%len(all)]
	}
	return fmt.Sprintf("%s the %s %s %s.", of("Open Close Save Print Find", i), of("old new small large red green blue", i/5),
		of("file window picture letter table", i/35), of("now again later twice never today slowly here there often rarely soon", i/175))
}
