package datasets

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/philox"
)

// lengths are as with picks by the definition: the longer side, then both.
func lengths(p pick) Shape { return Shape{int(p.pair) / 8, int(p.pair) % 8} }

func longer(p pick) int {
	s := lengths(p)
	return max(s.Source, s.Target)
}

// epochOf is n pairs, all different.
func epochOf(n int) (picks []pick) {
	for i := range n {
		picks = append(picks, pick{int32(i / 64), int32(i * 37 % 64)})
	}
	return picks
}

func sorted(picks ...[]pick) []pick {
	all := slices.Concat(picks...)
	slices.SortFunc(all, func(p, q pick) int { return int(p.language-q.language)*64 + int(p.pair-q.pair) })
	return all
}

// What a host has read it divides by windows, one after another: the mini-batches of a window
// have the pairs of as many blocks of the drawn order, and their lengths do not overlap. Blocks
// of hosts are brute-forced here.
func TestBucketing(t *testing.T) {
	for _, c := range []struct {
		n, examples, window, hosts int
		apart                      bool
	}{
		{128, 8, 4, 1, false}, {130, 8, 4, 1, false}, {130, 8, 1, 1, false}, {131, 8, 100, 1, false}, {8, 8, 4, 3, false},
		{130, 8, 4, 3, false}, {128, 8, 2, 16, false}, {130, 8, 3, 4, true}, {130, 9, 3, 4, true}, {5, 8, 2, 7, true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			b := bucketing{window: c.window, hosts: c.hosts, apart: c.apart, key: philox.KeyOf(1, "test")}
			made := b.batches(epochOf(c.n), 3, c.examples, lengths)
			testkit.EqualDeep(t, made, b.batches(epochOf(c.n), 3, c.examples, lengths), "two calls differ")
			if c.n > 8 && reflect.DeepEqual(made, b.batches(epochOf(c.n), 4, c.examples, lengths)) {
				t.Error("two epochs have the same mini-batches")
			}
			for i, batch := range made {
				testkit.Equal(t, len(batch), min(c.examples, c.n-i*c.examples), "mini-batch %d", i)
			}
			testkit.EqualAll(t, sorted(made...), sorted(epochOf(c.n)), "an epoch has other pairs")
			drawn := epochOf(c.n)
			mix(philox.NewStream(b.key, 3), drawn)
			blocks := slices.Collect(slices.Chunk(drawn, c.examples))
			for host := range c.hosts {
				var own, from [][]pick
				for i := range blocks {
					if n := len(blocks[i]); c.apart {
						own, from = append(own, made[i][n*host/c.hosts:n*(host+1)/c.hosts]), append(from, blocks[i][n*host/c.hosts:n*(host+1)/c.hosts])
					} else if i%c.hosts == host {
						own, from = append(own, made[i]), append(from, blocks[i])
					}
				}
				for at := 0; at < len(own); at += c.window {
					to := min(at+c.window, len(own))
					checkWindow(t, own[at:to], from[at:to])
				}
			}
		})
	}
}

// checkWindow requires the pairs of from, in ranges of length.
func checkWindow(t *testing.T, window, from [][]pick) {
	t.Helper()
	testkit.EqualAll(t, sorted(window...), sorted(from...), "a window has other pairs than the host has read for it")
	type span struct{ shortest, longest int }
	var spans []span
	for _, batch := range window {
		s := span{99, 0}
		for _, p := range batch {
			s.shortest, s.longest = min(s.shortest, longer(p)), max(s.longest, longer(p))
		}
		if len(batch) > 0 {
			spans = append(spans, s)
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return (a.shortest-b.shortest)*100 + a.longest - b.longest })
	for i := 1; i < len(spans); i++ {
		if spans[i].shortest < spans[i-1].longest {
			t.Errorf("mini-batches of one window have lengths %v and %v", spans[i-1], spans[i])
		}
	}
}

// A source's windows are of its own pairs, the held-out pass is as it was, and mini-batches of
// one window come in no order of length.
func TestWindows(t *testing.T) {
	c := Config{Seed: 3, Multilingual: MultilingualConfig{Languages: 3, Pairs: 2000}}
	plain := testkit.Must(NewMultilingual(c))(t)
	c.Translation.Window = 16
	s := testkit.Must(NewMultilingual(c))(t)
	positions := func(s *Translation) (n int) {
		for i := range s.Batches(Train, 32) {
			most := Shape{}
			for _, p := range s.order(Train, 0, 32).batches[i] {
				of := s.pairs[Train][p.language][p.pair]
				most = most.union(Shape{len(of.Source), len(of.Target)})
			}
			n += 32 * (most.Source + most.Target)
		}
		return n
	}
	c.Translation.Window = 1
	none := positions(testkit.Must(NewMultilingual(c))(t))
	if got := positions(s); got > none*4/5 {
		t.Errorf("%d positions with windows of 16, %d without", got, none)
	}
	testkit.EqualDeep(t, mustBatch(t, s, HeldOut, 1, 32), mustBatch(t, plain, HeldOut, 1, 32), "windows change what is held out")
	rises := 0
	for i := 1; i < 64; i++ {
		if mustBatch(t, s, Train, i, 32).Targets[0].Shape[1] > mustBatch(t, s, Train, i-1, 32).Targets[0].Shape[1] {
			rises++
		}
	}
	if rises < 8 {
		t.Errorf("%d of 64 mini-batches are longer than the one before", rises)
	}
}
