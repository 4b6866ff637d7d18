package datasets

import (
	"cmp"
	"slices"

	"gpipebench/nn/philox"
)

// bucketing divides the pairs of an epoch into mini-batches by windows: see
// TranslationConfig.Window, Hosts and Apart.
type bucketing struct {
	window, hosts int
	apart         bool
	key           philox.Key
}

// batches returns the mini-batches of an epoch; all have the same number of
// examples but the last, which may have fewer. Nothing but the arguments and the
// key decides them.
//
// The pairs are drawn in random order and cut into blocks, one for each step. A
// host reads every hosts-th block or, apart, a part of each, and divides what it
// has read anew: it sorts a window of blocks by length.
func (b bucketing) batches(picks []pick, epoch, examples int, size func(pick) Shape) [][]pick {
	random := philox.NewStream(b.key, uint64(epoch))
	mix(random, picks)
	blocks := slices.Collect(slices.Chunk(picks, examples))
	if !b.apart {
		for host := range b.hosts {
			var own [][]pick
			for i := host; i < len(blocks); i += b.hosts {
				own = append(own, blocks[i])
			}
			b.sort(random, own, size)
			for i, made := range own {
				blocks[host+i*b.hosts] = made
			}
		}
		return blocks
	}
	batches := make([][]pick, len(blocks))
	for host := range b.hosts {
		own := make([][]pick, len(blocks))
		for i, block := range blocks {
			own[i] = block[len(block)*host/b.hosts : len(block)*(host+1)/b.hosts]
		}
		b.sort(random, own, size)
		for i, part := range own {
			batches[i] = append(batches[i], part...)
		}
	}
	return batches
}

// sort exchanges pairs between the blocks of each window, so that the pairs of a
// block are of similar length, and mixes the blocks, and the pairs of each. If the
// last block of all is smaller than the others it stays the last.
func (b bucketing) sort(random *philox.Stream, blocks [][]pick, size func(pick) Shape) {
	for window := range slices.Chunk(blocks, b.window) {
		pairs := slices.Concat(window...)
		slices.SortStableFunc(pairs, func(p, q pick) int {
			x, y := size(p), size(q)
			return cmp.Or(cmp.Compare(max(x.Source, x.Target), max(y.Source, y.Target)), cmp.Compare(x.Source+x.Target, y.Source+y.Target))
		})
		for _, block := range window {
			n := copy(block, pairs)
			pairs = pairs[n:]
			mix(random, block)
		}
		full := len(window)
		if len(window[full-1]) < len(window[0]) {
			full--
		}
		mix(random, window[:full])
	}
}
