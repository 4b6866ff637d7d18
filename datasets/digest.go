package datasets

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Digest returns the SHA-256 of what a source has read from files: equal for equal content,
// whatever the files are called. For a source that reads none, which its Config describes, it is empty, but for a
// Translation, of whose pairs it is.
func Digest(s Source) string {
	h := sha256.New()
	switch s := s.(type) {
	case *Text:
		h.Write(s.text)
	case *Translation:
		for _, split := range []Split{Train, HeldOut} {
			for language := range s.languages {
				for _, p := range s.Pairs(language, split) {
					fmt.Fprintf(h, "%d %d %q %q\n", split, language, p.SourceText, p.TargetText)
				}
			}
		}
	case *ImageSet:
		stored, ok := s.pixels.(*storedImages)
		if !ok {
			return ""
		}
		fmt.Fprintf(h, "%d %d %q\n", s.size, s.channels, s.classes)
		for _, split := range stored {
			h.Write(split.pixels)
			var classes []byte
			for _, class := range split.classes {
				classes = binary.LittleEndian.AppendUint32(classes, uint32(class))
			}
			h.Write(classes)
		}
	default:
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
