package mlperf

import (
	"slices"
	"testing"

	"gpipebench/datasets"
	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/nn"
)

// bucketingPairs is a mini-batch of sources and targets of given lengths, in tensors of 8 and 10
// places.
func bucketingPairs(lengths ...[2]int) nn.Batch {
	n := len(lengths)
	source, of := nn.Tensor{Shape: []int{n, 8}, I32: make([]int32, 8*n)}, nn.Tensor{Shape: []int{n}, I32: make([]int32, n)}
	targets := nn.Tensor{Shape: []int{n, 10}, I32: slices.Repeat([]int32{-1}, 10*n)}
	for i, l := range lengths {
		of.I32[i] = int32(l[0])
		clear(targets.I32[10*i : 10*i+l[1]])
	}
	return nn.Batch{Inputs: []nn.Tensor{source, of, targets}, Targets: []nn.Tensor{targets}}
}

// Four pairs by hand: 2+3, 4+1, 8+10 and 1+1 tokens. Of two replicas the first is padded to
// 4+3, the second to 8+10; of four each has its own.
func TestBucketingCount(t *testing.T) {
	f := &bucketingFigures{Parts: map[int]int64{}, Slowest: map[int]int64{}}
	b := bucketingPairs([2]int{2, 3}, [2]int{4, 1}, [2]int{8, 10}, [2]int{1, 1})
	f.count(b, []int{1, 2, 4})
	f.count(b, []int{1, 2, 4})
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"tokens", f.Tokens, 2 * 30}, {"longest", f.Longest, 2 * 4 * 18}, {"shaped", f.Shaped, 2 * 4 * 18},
		{"parts of 1", f.Parts[1], 2 * 72}, {"slowest of 1", f.Slowest[1], 2 * 72},
		{"parts of 2", f.Parts[2], 2 * (2*7 + 2*18)}, {"slowest of 2", f.Slowest[2], 2 * 2 * 36},
		{"parts of 4", f.Parts[4], 2 * 30}, {"slowest of 4", f.Slowest[4], 2 * 4 * 18},
	} {
		testkit.Equal(t, c.got, c.want, "%s", c.what)
	}
	testkit.NoError(t, f.Check())
	testkit.Equal(t, f.Batches, 2, "mini-batches")
	f.Parts[2] = f.Slowest[2] + 1 // larger than all of them at the slowest one's size
	testkit.Fails(t, f.Check())
}

// What windows are for, counted on real epochs: longer windows pad less, hosts that take turns
// pad as one host does, and hosts apart leave replicas waiting.
func TestBucketingFigures(t *testing.T) {
	b := labtest.Loaded[*bucketing](t, Paper.Experiment("bucketing").Load)
	of := map[string]*bucketingFigures{}
	for _, w := range b.Spec.Ways {
		s := testkit.Must(datasets.NewMultilingual(w.of(datasets.Config{Seed: 1, Multilingual: datasets.MultilingualConfig{Languages: 1, Pairs: 8192}})))(t)
		f := testkit.Must(bucketingCounted(s, 256, []int{1, 8, 64}))(t, "%s", w.Name)
		testkit.NoError(t, f.Check(), "%s", w.Name)
		of[w.Name] = f
	}
	none := of["none"]
	for name, f := range of {
		if f.Tokens != none.Tokens || f.Batches != 32 {
			t.Errorf("%s: %d tokens in %d mini-batches, want the pairs of an epoch", name, f.Tokens, f.Batches)
		}
	}
	longest := func(name string) float64 { return float64(of[name].Slowest[64]) }
	for _, order := range [][2]string{{"windows of 2", "none"}, {"windows of 4", "windows of 2"}, {"windows of 16", "windows of 4"}, {"hosts apart", "none"}} {
		if longest(order[0]) >= longest(order[1]) {
			t.Errorf("%s: %v positions, %s %v, want fewer", order[0], longest(order[0]), order[1], longest(order[1]))
		}
	}
	for _, hosts := range []string{"two hosts in turn", "four hosts in turn"} {
		testkit.Near(t, longest(hosts)/longest("windows of 4"), 1, 0.05, "%s: the share of one host's positions", hosts)
	}
	if r := longest("hosts apart") / longest("windows of 4"); r < 1.1 {
		t.Errorf("hosts apart: %v of the positions of one host", r)
	}
}

func TestBucketingMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("trains")
	}
	b := labtest.Loaded[*bucketing](t, Paper.Experiment("bucketing").Load)
	log := records.New(b.Key("smoke"))
	labtest.MeasureTwice(t, b, log)
	p := b.Spec.Profiles["smoke"]
	testkit.Equal(t, len(log.Names), len(b.Spec.Ways)+len(b.Spec.Trained)*(1+len(p.Seeds)), "samples")
	testkit.Must(b.Report(log, nil))(t)
}

func TestBucketingSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("bucketing"), [][3]string{
		{"one_host: windows of 4", "one_host: windows of 5", "no way"},
		{"trained: [none,", "trained: [nothing,", "no way"},
		{"window: 4, hosts: 2}", "window: 0, hosts: 2}", "hosts without windows"},
		{"replicas: [1, 8, 64]", "replicas: [3]", "want a multiple of all replicas"},
		{"pairs: 2048, held_out: 1,", "pairs: 64, held_out: 1,", "want 128 or more"},
	})
}
