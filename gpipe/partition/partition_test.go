package partition

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/internal/testkit"
)

// compositions calls visit with each way to cut n layers into stages of one or
// more, in lexicographic order.
func compositions(n, stages int, visit func(sizes []int)) {
	sizes := make([]int, 0, stages)
	var grow func(left int)
	grow = func(left int) {
		if len(sizes) == stages-1 {
			visit(append(sizes, left))
			return
		}
		for s := 1; s <= left-(stages-1-len(sizes)); s++ {
			sizes = append(sizes, s)
			grow(left - s)
			sizes = sizes[:len(sizes)-1]
		}
	}
	grow(n)
}

// best returns the first of the compositions with the least objective, which
// gets the stages' exact costs.
func best(cost []float64, stages int, allowed func(sizes []int) bool, objective func(sums []*big.Rat) *big.Rat) []int {
	var found []int
	var least *big.Rat
	compositions(len(cost), stages, func(sizes []int) {
		if allowed != nil && !allowed(sizes) {
			return
		}
		var sums []*big.Rat
		i := 0
		for _, n := range sizes {
			sum := new(big.Rat)
			for range n {
				sum.Add(sum, new(big.Rat).SetFloat64(cost[i]))
				i++
			}
			sums = append(sums, sum)
		}
		if o := objective(sums); least == nil || o.Cmp(least) < 0 {
			least, found = o, slices.Clone(sizes)
		}
	})
	return found
}

func bottleneck(sums []*big.Rat) *big.Rat {
	return slices.MaxFunc(sums, func(a, b *big.Rat) int { return a.Cmp(b) })
}

// variance as the textbook has it, from the mean.
func variance(sums []*big.Rat) *big.Rat {
	k := big.NewRat(int64(len(sums)), 1)
	mean := new(big.Rat)
	for _, s := range sums {
		mean.Add(mean, s)
	}
	mean.Quo(mean, k)
	v := new(big.Rat)
	for _, s := range sums {
		d := new(big.Rat).Sub(s, mean)
		v.Add(v, d.Mul(d, d))
	}
	return v.Quo(v, k)
}

// layers draws costs of several sorts: few distinct values (ties), zeros,
// floats, and FLOPs, whose squares are beyond float64.
func layers(rng *rand.Rand, n int) []float64 {
	cost := make([]float64, n)
	sort := rng.IntN(5)
	for i := range cost {
		switch sort {
		case 0:
			cost[i] = float64(rng.IntN(3))
		case 1:
			cost[i] = 1
		case 2:
			cost[i] = rng.Float64()
		case 3:
			cost[i] = float64(1 + rng.Int64N(1<<49))
		case 4:
			cost[i] = float64(rng.IntN(20)) * 0.1
		}
	}
	return cost
}

// No other cut has a lower bottleneck, or, of min-variance, varies less: "the partitioning algorithm
// minimizes the variance in the estimated costs of all cells" (Huang et al. 2019, section 2.2).
func TestExactAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := 1; n <= 10; n++ {
		for stages := 1; stages <= n; stages++ {
			for range 12 {
				cost := layers(rng, n)
				for p, objective := range map[Partitioner]func([]*big.Rat) *big.Rat{MinMax: bottleneck, MinVariance: variance} {
					got := testkit.Must(Split(p, cost, stages))(t)
					if want := best(cost, stages, nil, objective); !slices.Equal(got.Sizes, want) || got.Moved != "" {
						t.Fatalf("%v of %v in %d stages: %v, want %v", p, cost, stages, got, want)
					}
				}
			}
		}
	}
}

func TestMinMaxUnderCapacity(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	refused := 0
	for range 1500 {
		n := 1 + rng.IntN(9)
		stages := 1 + rng.IntN(n)
		cost := layers(rng, n)
		// Any answer for any pair: nothing monotone.
		table := make([]bool, (n+1)*(n+1))
		share := rng.Float64()
		for i := range table {
			table[i] = rng.Float64() < share
		}
		asked := map[[2]int]bool{}
		fits := func(from, to int) bool {
			if asked[[2]int{from, to}] || from < 0 || from >= to || to > n {
				t.Fatalf("asked for layers %d to %d of %d, or twice", from, to, n)
			}
			asked[[2]int{from, to}] = true
			return table[from*(n+1)+to]
		}
		want := best(cost, stages, func(sizes []int) bool {
			from := 0
			for _, s := range sizes {
				if !table[from*(n+1)+from+s] {
					return false
				}
				from += s
			}
			return true
		}, bottleneck)
		got, err := MinMaxUnderCapacity(cost, stages, fits)
		if want == nil {
			refused++
			if err == nil {
				t.Fatalf("%v in %d stages: %v, want an error", cost, stages, got)
			}
			continue
		}
		if err != nil || !slices.Equal(got.Sizes, want) {
			t.Fatalf("%v in %d stages: %v, %v, want %v", cost, stages, got, err, want)
		}
	}
	if refused < 100 || refused > 1400 {
		t.Errorf("%d of 1500 refused", refused)
	}
}

func TestMinMaxUnderCapacityRefuses(t *testing.T) {
	cost := []float64{1, 2, 3, 4}
	for _, test := range []struct {
		stages int
		fits   func(from, to int) bool
		want   string
	}{
		{2, func(from, to int) bool { return to-from <= 1 }, "partition: no cut of 4 layers into 2 stages fits the devices: want more stages or a larger capacity"},
		{4, func(from, to int) bool { return from != 2 }, "partition: no cut of 4 layers into 4 stages fits the devices: layer 2 does not fit one even by itself; want a larger capacity"},
		{5, func(from, to int) bool { return true }, "partition: 5 stages for 4 layers: want 1 to 4, a layer or more on each"},
	} {
		_, err := MinMaxUnderCapacity(cost, test.stages, test.fits)
		testkit.Equal(t, fmt.Sprint(err), test.want)
	}
}

// Worked by hand from the sources' definitions.
func TestRules(t *testing.T) {
	for _, test := range []struct {
		partitioner Partitioner
		cost        []float64
		stages      int
		want        Result
	}{
		// Cumulative shares times 4: 0.5 1 1.5 2 2.5 3 3.5 4; the last goes to the
		// last stage. A layer lies where it ends, so the first stage gets least.
		{Lingvo, []float64{1, 1, 1, 1, 1, 1, 1, 1}, 4, Result{Sizes: []int{1, 2, 2, 3}}},
		// Times 2: 0.2 0.6 1.2 2.
		{Lingvo, []float64{1, 2, 3, 4}, 2, Result{Sizes: []int{2, 2}}},
		// Times 2: 1 1.25 1.5 1.75 2: all in stage 1.
		{Lingvo, []float64{4, 1, 1, 1, 1}, 2, Result{Sizes: []int{1, 4}, Moved: "lingvo left stage 0 empty: it takes layer 0 from stage 1"}},
		// Times 4: 0.33 0.67 3.33 3.67 4: sizes 2 0 0 3.
		{Lingvo, []float64{1, 1, 8, 1, 1}, 4, Result{Sizes: []int{1, 1, 1, 2},
			Moved: "lingvo left stage 1 empty: it takes layer 1 from stage 0; lingvo left stage 2 empty: it takes layer 2 from stage 3"}},
		// Times 3: 0.8 2.4 2.6 2.8 3: sizes 1 0 4, and stage 0 has none to spare.
		{Lingvo, []float64{4, 8, 1, 1, 1}, 3, Result{Sizes: []int{1, 1, 3}, Moved: "lingvo left stage 1 empty: it takes layer 1 from stage 2"}},
		// Times 3: 0.3 0.6 2.4 3: sizes 2 0 2, and stage 2 costs 8 of 10.
		{Lingvo, []float64{1, 1, 6, 2}, 3, Result{Sizes: []int{2, 1, 1}, Moved: "lingvo left stage 1 empty: it takes layer 2 from stage 2"}},
		// Times 3: 2.1 2.6 3: sizes 0 0 3.
		{Lingvo, []float64{5, 1, 1}, 3, Result{Sizes: []int{1, 1, 1},
			Moved: "lingvo left stage 0 empty: each stage from 2 to it passes a layer on, the first is layer 0; lingvo left stage 1 empty: it takes layer 1 from stage 2"}},

		// torchgpipe's own test. As shares 0 .2 .4 .6 .8 1; from 3 3, with 0.6 and
		// 2.4, layer 3 moves: 1.2 and 1.8.
		{Block, []float64{1, 2, 3, 4, 5, 6}, 2, Result{Sizes: []int{4, 2}}},
		{Block, []float64{0, 0}, 2, Result{Sizes: []int{1, 1}}},
		// 7 layers start as 2 2 3; alike, they count as nothing, so they stay.
		{Block, []float64{9, 9, 9, 9, 9, 9, 9}, 3, Result{Sizes: []int{2, 2, 3}}},
		// As shares 1 1 1 0 0 0, from 2 2 2 with 2 1 0: layer 3 moves from the stage
		// between to the last (2 1 0), then layer 2 (2 0 1), then layer 1 from the
		// first (1 1 1).
		{Block, []float64{3, 3, 3, 1, 1, 1}, 3, Result{Sizes: []int{1, 1, 4}}},
		// As shares 0 0 1 0.5, from 1 1 2 with 0 0 1.5: layer 1 moves to stage 0,
		// which leaves stage 1 empty, so that takes layer 2: 0 1 0.5. (torchgpipe
		// ends with sizes 3 0 1.)
		{Block, []float64{0, 0, 2, 1}, 3, Result{Sizes: []int{2, 1, 1}}},
		// As shares 0 0 0 1 0.5, from 1 1 1 2 with 0 0 0 1.5. Stage 0 takes layer 1,
		// stage 1 (empty) takes layer 2, stage 0 takes that too, stage 2 (now empty,
		// as stage 1 is) takes layer 3: sizes 3 0 1 1 with 0 0 1 0.5, and the rule ends.
		{Block, []float64{0, 0, 0, 2, 1}, 4, Result{Sizes: []int{2, 1, 1, 1}, Moved: "block left stage 1 empty: it takes layer 2 from stage 0"}},
	} {
		got := testkit.Must(Split(test.partitioner, test.cost, test.stages))(t)
		testkit.Equal(t, cmp.Diff(test.want, got), "", "%v of %v in %d stages (-want +got)", test.partitioner, test.cost, test.stages)
	}
	_, err := Split(Lingvo, []float64{0, 0}, 2)
	testkit.Equal(t, fmt.Sprint(err), "partition: lingvo's rule divides by the layers' total cost, which is 0: want a layer that costs something, or another partitioner")
}

// Every partitioner's stages hold each layer once and have no bottleneck below
// min-max's. Block's stages differ by no more than layers do, unless it left one
// empty.
func TestSplitInvariants(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 3000 {
		n := 1 + rng.IntN(40)
		stages := 1 + rng.IntN(n)
		cost := layers(rng, n)
		cost[rng.IntN(n)]++ // something costs something
		optimal := testkit.Must(Split(MinMax, cost, stages))(t)
		for _, p := range []Partitioner{MinMax, MinVariance, Lingvo, Block} {
			got := testkit.Must(Split(p, cost, stages))(t)
			testkit.NoError(t, CheckBalance(got.Sizes, n, stages), "%v of %v in %d stages", p, cost, stages)
			e, most := Efficiency(cost, got.Sizes), Efficiency(cost, optimal.Sizes)
			if !(e > 0 && e <= most*(1+1e-12) && e <= 1+1e-12) {
				t.Fatalf("%v of %v in %d stages: efficiency %v, min-max's %v", p, cost, stages, e, most)
			}
			if (p == MinMax || p == MinVariance) && got.Moved != "" {
				t.Fatalf("%v of %v in %d stages: %s", p, cost, stages, got.Moved)
			}
			if p != Block || got.Moved != "" {
				continue
			}
			// In the costs the rule works on, which start at the cheapest layer's.
			least, largest := slices.Min(cost), slices.Max(cost)
			above := slices.Clone(cost)
			for i := range above {
				above[i] -= least
			}
			sums := StageCosts(above, got.Sizes)
			if d := slices.Max(sums) - slices.Min(sums); d > (largest-least)*(1+1e-9) {
				t.Fatalf("block of %v in %d stages: %v, stages differ by %v, layers by %v", cost, stages, got.Sizes, d, largest-least)
			}
		}
	}
}

func TestSplitRefuses(t *testing.T) {
	for _, test := range []struct {
		p      Partitioner
		cost   []float64
		stages int
		want   string
	}{
		{MinMax, []float64{1, 2}, 3, "partition: 3 stages for 2 layers: want 1 to 2, a layer or more on each"},
		{MinMax, []float64{1, 2}, 0, "partition: 0 stages for 2 layers: want 1 to 2, a layer or more on each"},
		{Block, []float64{1, math.NaN()}, 1, "partition: layer 1 costs NaN: want a finite number, 0 or more"},
		{Lingvo, []float64{math.Inf(1), 2}, 1, "partition: layer 0 costs +Inf: want a finite number, 0 or more"},
		{MinVariance, []float64{1, -2}, 1, "partition: layer 1 costs -2: want a finite number, 0 or more"},
		{MinMax, []float64{math.MaxFloat64, math.MaxFloat64}, 1, "partition: the layers' costs add up to more than a float64 holds: want them in a larger unit"},
		{9, []float64{1, 2}, 1, "partition: unknown partitioner 9: want min-max, min-variance, lingvo or block"},
	} {
		_, err := Split(test.p, test.cost, test.stages)
		testkit.Equal(t, fmt.Sprint(err), test.want)
	}
}

func TestCheckBalance(t *testing.T) {
	for _, test := range []struct {
		sizes          []int
		layers, stages int
		want           string
	}{
		{[]int{2, 3}, 5, 2, "<nil>"},
		{[]int{5}, 5, 1, "<nil>"},
		{[]int{2, 3}, 5, 3, "partition: balance [2 3] has 2 stages: want 3"},
		{[]int{5, 0}, 5, 2, "partition: balance [5 0]: stage 1 has 0 layers: want 1 or more"},
		{[]int{-1, 6}, 5, 2, "partition: balance [-1 6]: stage 0 has -1 layers: want 1 or more"},
		{[]int{2, 2}, 5, 2, "partition: balance [2 2] adds up to 4: want 5, the layers of the network"},
		{[]int{math.MaxInt, 3}, 5, 2, fmt.Sprintf("partition: balance [%d 3]: stage 0 has %d layers: want at most the 5 of the network", math.MaxInt, math.MaxInt)},
	} {
		testkit.Equal(t, fmt.Sprint(CheckBalance(test.sizes, test.layers, test.stages)), test.want, "CheckBalance(%v, %d, %d)", test.sizes, test.layers, test.stages)
	}
}

func TestEfficiency(t *testing.T) {
	for _, test := range []struct {
		cost  []float64
		sizes []int
		want  float64
	}{
		{[]float64{1, 1, 1, 1}, []int{2, 2}, 1},
		{[]float64{1, 1, 1, 3}, []int{2, 2}, 0.75},
		{[]float64{1, 1, 1, 1}, []int{1, 3}, 2. / 3},
		{[]float64{0, 0}, []int{1, 1}, 1},
	} {
		testkit.Equal(t, Efficiency(test.cost, test.sizes), test.want, "Efficiency(%v, %v)", test.cost, test.sizes)
	}
	testkit.Equal(t, testkit.Panics(t, func() { Efficiency([]float64{1, 2, 3}, []int{1, 1}) }), "partition: sizes [1 1] for 3 layers")
}
