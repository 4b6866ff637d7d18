package gettext

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// message is an entry of a catalog: a text of the program and its translation,
// in the catalog's charset. Both are parts of the file.
type message struct{ english, translation []byte }

// atByte is an error in a file with the offset of the byte where it shows.
func atByte(at int, format string, a ...any) error {
	return fmt.Errorf("byte %d: %s", at, fmt.Sprintf(format, a...))
}

// The format, after the GNU gettext manual, section "The Format of GNU MO
// Files". All numbers have 32 bits, in the byte order of the first.
const (
	magic = 0x950412de

	revisionAt     = 4 // major revision in the upper half, 0 or 1
	countAt        = 8 // of messages
	originalsAt    = 12
	translationsAt = 16
	headerSize     = 28 // with the size and the place of a hash table, which is not used

	entrySize = 8 // of a table: length and place of a text, which a byte 0 follows
)

// What separates the parts of a text.
const (
	afterContext = "\x04" // between a context and the text itself
	betweenForms = "\x00" // between singular and plural
)

// parse returns a catalog's messages in their order, without contexts and of
// plurals only the first form, and its charset, "" if it has none. Messages
// without a translation are left out.
//
// Texts that overlap are refused: they would be more than the file's bytes.
func parse(file []byte) (messages []message, charset string, err error) {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case len(file) < 4:
		return nil, "", atByte(len(file), "ends in its first number, want a gettext catalog")
	case order.Uint32(file) == magic:
	case binary.BigEndian.Uint32(file) == magic:
		order = binary.BigEndian
	default:
		return nil, "", atByte(0, "begins with % x, want a gettext catalog: de 12 04 95 or 95 04 12 de", file[:4])
	}
	size := uint64(len(file))
	if size < headerSize {
		return nil, "", atByte(len(file), "ends in the header, want %d bytes", headerSize)
	}
	number := func(at uint64) uint64 { return uint64(order.Uint32(file[at:])) }
	if major := number(revisionAt) >> 16; major > 1 {
		return nil, "", atByte(revisionAt, "revision %d of the format, want 0 or 1", major)
	}
	count := number(countAt)
	for _, at := range []uint64{originalsAt, translationsAt} {
		if table := number(at); table+entrySize*count > size {
			return nil, "", atByte(int(at), "a table of %d messages at byte %d, want one that ends within the file's %d bytes", count, table, size)
		}
	}
	taken := uint64(0)
	text := func(entry uint64) ([]byte, error) {
		length, at := number(entry), number(entry+4)
		if at+length >= size || file[at+length] != 0 {
			return nil, atByte(int(entry), "a text of %d bytes at byte %d, want one that ends within the file's %d bytes, with a byte 0 after it", length, at, size)
		}
		if taken += length + 1; taken > size {
			return nil, atByte(int(entry), "texts that overlap: more than the file's %d bytes", size)
		}
		return file[at : at+length], nil
	}
	originals, translations := number(originalsAt), number(translationsAt)
	for i := range count {
		original, err := text(originals + entrySize*i)
		if err != nil {
			return nil, "", err
		}
		translation, err := text(translations + entrySize*i)
		if err != nil {
			return nil, "", err
		}
		if len(original) == 0 { // its translation describes the catalog
			charset = charsetOf(translation)
			continue
		}
		if _, own, ok := bytes.Cut(original, []byte(afterContext)); ok {
			original = own
		}
		original, _, _ = bytes.Cut(original, []byte(betweenForms))
		translation, _, _ = bytes.Cut(translation, []byte(betweenForms))
		if len(translation) > 0 {
			messages = append(messages, message{original, translation})
		}
	}
	return messages, charset, nil
}
