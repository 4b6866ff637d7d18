package crc32c

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"gpipebench/internal/testkit"
)

// The sums equal hash/crc32's, for all lengths up to some that are folded, at any offset, and
// in pieces of up to a mebibyte.
func TestUpdate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	for n := range least + 2*stride + 3 {
		from := rng.IntN(len(b) - n)
		testkit.Equal(t, Checksum(b[from:from+n]), crc32.Checksum(b[from:from+n], table), "%d bytes from %d", n, from)
	}
	want := crc32.Checksum(b, table)
	for range 100 {
		cut := rng.IntN(len(b))
		testkit.Equal(t, Update(Checksum(b[:cut]), b[cut:]), want, "cut at %d", cut)
		b[cut] ^= 4
		if Checksum(b) == want {
			t.Errorf("a bit of byte %d does not count", cut)
		}
		b[cut] ^= 4
	}
	t.Logf("folds: %v", folds)
}

func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{least, 1 << 20, 1 << 26} {
		x := make([]byte, n)
		for name, f := range map[string]func() uint32{"ours": func() uint32 { return Checksum(x) }, "hash/crc32": func() uint32 { return crc32.Checksum(x, table) }} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					f()
				}
			})
		}
	}
}
