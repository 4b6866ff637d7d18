package kernel

import (
	"fmt"
	"testing"
)

func TestEmbed(t *testing.T) {
	const vocab, scale, period = 5, 3, 2
	ids := []int32{4, 0, 4, 2, 1}
	eachProfile(t, func(t *testing.T) {
		for _, dim := range []int{1, 7, 16, 33, 64, 129} {
			table, add, dst := make([]float32, vocab*dim), make([]float32, period*dim), make([]float32, len(ids)*dim)
			for i := range table {
				table[i] = float32(i%11) - 5
			}
			for i := range add {
				add[i] = float32(i%7) / 4
			}
			for _, add := range [][]float32{nil, add} {
				Embed(dst, table, ids, dim, scale, add, period)
				for r, id := range ids {
					for j := range dim {
						want := table[int(id)*dim+j] * scale
						if add != nil {
							want += add[r%period*dim+j]
						}
						if got := dst[r*dim+j]; got != want {
							t.Fatalf("dim %d: row %d column %d is %v, want %v", dim, r, j, got, want)
						}
					}
				}
			}
		}
	})
}

func TestEmbedGrad(t *testing.T) {
	const vocab, dim, scale = 3, 50, 0.7
	ids := []int32{1, 2, 1, 1}
	eachProfile(t, func(t *testing.T) {
		dy := make([]float32, len(ids)*dim)
		for i := range dy {
			dy[i] = 1 / float32(i+3)
		}
		whole := make([]float32, vocab*dim)
		EmbedGrad(whole, dy, ids, dim, 0, dim, scale)
		for j := range dim {
			for id := range vocab {
				var want float64
				for r, i := range ids {
					if int(i) == id {
						want += scale * float64(dy[r*dim+j])
					}
				}
				if got := whole[id*dim+j]; !closeTo(got, want, 4, 0) {
					t.Errorf("row %d column %d is %v, want %v", id, j, got, want)
				}
			}
		}
		for at := range dim + 1 {
			cut := make([]float32, vocab*dim)
			EmbedGrad(cut, dy, ids, dim, 0, at, scale)
			EmbedGrad(cut, dy[:2*dim], ids[:2], dim, at, dim, scale)
			EmbedGrad(cut, dy[2*dim:], ids[2:], dim, at, dim, scale)
			sameBits(t, fmt.Sprintf("cut at column %d and row 2", at), [][]float32{cut}, [][]float32{whole})
		}
	})
}
