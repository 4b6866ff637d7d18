package party

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
)

// Digest is the SHA-256 of values in little-endian order.
func Digest(values []float32) string {
	h := sha256.New()
	buffer := make([]byte, 0, 1<<16)
	for part := range slices.Chunk(values, 1<<14) {
		buffer = buffer[:0]
		for _, v := range part {
			buffer = binary.LittleEndian.AppendUint32(buffer, math.Float32bits(v))
		}
		h.Write(buffer)
	}
	return hex.EncodeToString(h.Sum(nil))
}
