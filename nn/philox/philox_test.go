package philox

import (
	"testing"

	"gpipebench/internal/testkit"
)

// Known answers of the Random123 distribution (kat_vectors, philox4x32-10).
func TestBlockKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		key  Key
		ctr  [4]uint32
		want [4]uint32
	}{
		{Key{}, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{Key{^uint32(0), ^uint32(0)}, [4]uint32{^uint32(0), ^uint32(0), ^uint32(0), ^uint32(0)}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{Key{0xa4093822, 0x299f31d0}, [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		testkit.Equal(t, Block(c.key, c.ctr), c.want, "Block(%x, %x)", c.key, c.ctr)
	}
}

func TestKeysAndIndicesSeparateStreams(t *testing.T) {
	seen := map[[4]uint32]string{}
	for _, name := range []string{"a", "b", "layer1", "layer2"} {
		for seed := range uint64(3) {
			for index := range uint64(3) {
				s := NewStream(KeyOf(seed, name), index)
				v := [4]uint32{s.Uint32(), s.Uint32(), s.Uint32(), s.Uint32()}
				if other, ok := seen[v]; ok {
					t.Errorf("stream (%d, %s, %d) equals %s", seed, name, index, other)
				}
				seen[v] = name
			}
		}
	}
}

func TestSkipIsSoManyDraws(t *testing.T) {
	start := *NewStream(KeyOf(1, "skip"), 3)
	start.ctr[0] = ^uint32(0) - 1 // near the carry
	for _, before := range []int{0, 1, 3, 4} {
		for n := range 20 {
			skipped, drawn := start, start
			for range before {
				skipped.Uint32()
				drawn.Uint32()
			}
			skipped.Skip(uint64(n))
			for range n {
				drawn.Uint32()
			}
			for i := range 6 {
				if got, want := skipped.Uint32(), drawn.Uint32(); got != want {
					t.Fatalf("%d words, then %d skipped: word %d = %x, want %x", before, n, i, got, want)
				}
			}
		}
	}
}

// The lengths are below, at and above the number that the cores draw at once,
// from within a block.
func TestFillIsSoManyDraws(t *testing.T) {
	normal := func(s *Stream) float32 { return float32(s.Normal()) }
	uniform := func(s *Stream) float32 { return float32(s.Float64()) }
	for _, n := range []int{0, 1, 7, 2*fillPart - 1, 2 * fillPart, 9*fillPart + 5} {
		for name, c := range map[string]struct {
			words int
			draw  func(*Stream) float32
		}{"normal": {NormalWords, normal}, "uniform": {Float64Words, uniform}} {
			filled := NewStream(KeyOf(2, name), 0)
			filled.Uint32()
			drawn := *filled
			got := make([]float32, n)
			filled.Fill(got, c.words, c.draw)
			for i := range got {
				if want := c.draw(&drawn); got[i] != want {
					t.Fatalf("%s, %d of %d: %v, want %v", name, i, n, got[i], want)
				}
			}
			testkit.Equal(t, filled.Uint32(), drawn.Uint32(), "%s: the word after %d", name, n)
		}
	}
}

func BenchmarkFill(b *testing.B) {
	dst := make([]float32, 1<<18)
	for name, c := range map[string]struct {
		words int
		draw  func(*Stream) float32
	}{
		"normal":  {NormalWords, func(s *Stream) float32 { return float32(s.Normal()) }},
		"uniform": {Float64Words, func(s *Stream) float32 { return float32(s.Float64()) }},
	} {
		b.Run(name, func(b *testing.B) {
			s := NewStream(KeyOf(3, name), 0)
			for b.Loop() {
				s.Fill(dst, c.words, c.draw)
			}
			b.SetBytes(int64(4 * len(dst)))
		})
	}
}
