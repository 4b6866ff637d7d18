package gpipe

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gpipebench/gpipe/clock/clocktest"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/stats"
	"gpipebench/internal/testkit"
	"gpipebench/models/transformer"
)

// checkTimeline is guarantee G3 on one step.
func checkTimeline(t testing.TB, r *Result) {
	t.Helper()
	testkit.Equal(t, clocktest.Check(r.Timeline, r.Times.Lists), nil)
	// The idle time of every device has causes, which add up to it.
	for d, idle := range r.Timeline.Causes() {
		var busy []timeline.Event
		for _, e := range r.Timeline.Events {
			if r.Timeline.Device(e.At) == d && e.Kind.OnDevice() && e.Kind != timeline.Barrier && e.Kind != timeline.Meet {
				busy = append(busy, e)
			}
		}
		slices.SortFunc(busy, func(a, b timeline.Event) int { return cmp.Compare(a.Start, b.Start) })
		left, until := r.Timeline.Span(), 0.0
		for _, e := range busy {
			left -= max(0, e.End-max(e.Start, until))
			until = max(until, e.End)
		}
		if off := idle.Sum() - left; off < -1e-9 || off > 1e-9 {
			t.Errorf("device %d: idle %v s by cause, %v s in all: %+v", d, idle.Sum(), left, idle)
		}
	}
}

// checkMemory is guarantee G2 on a run.
func checkMemory(t testing.TB, tr *Trainer) {
	t.Helper()
	for k, p := range tr.Plans() {
		bytes, peak := tr.HighWater(k)
		if bytes != p.Bytes || peak != p.Peak {
			t.Errorf("device %d: planned %v, peak %d; used %v, peak %d", k, p.Bytes, p.Peak, bytes, peak)
		}
		for i, part := range p.Parts {
			if bytes, peak := tr.PartHighWater(k, i+1); bytes != part.Bytes || peak != part.Peak {
				t.Errorf("device %d, part %d: planned %v, peak %d; used %v, peak %d", k, i+1, part.Bytes, part.Peak, bytes, peak)
			}
		}
	}
}

// way is a way to run a network, which must not change its bits.
type way struct {
	Pipeline      // without what belongs to the network, such as Layers
	examples int  // of the mini-batch
	fine     bool // cut also inside of layers
	variant  int  // of the network, in tests of several: each has bits of its own
}

// of is p, run this way.
func (w way) of(p Pipeline) Pipeline {
	p.Partitions, p.MicroBatches, p.Partitioner, p.Schedule, p.Checkpoint = w.Partitions, w.MicroBatches, w.Partitioner, w.Schedule, w.Checkpoint
	p.LateRecompute, p.Devices, p.testing = w.LateRecompute, w.Devices, w.testing
	p.Replicas, p.Groups, p.ShardUpdate, p.BatchNormScope = w.Replicas, w.Groups, w.ShardUpdate, w.BatchNormScope
	p.Spatial, p.TiedGradients, p.Tensor, p.Blocks = w.Spatial, w.TiedGradients, w.Tensor, w.Blocks
	// As many chunks, or devices with two, as there are layers for.
	p.Chunks = min(w.Chunks, max(1, len(p.Layers)/max(w.Partitions, 1)))
	if p.Schedule >= schedule.ZBV {
		p.Partitions = min(p.Partitions, len(p.Layers)/2)
	}
	if p.Schedule == schedule.DualPipeV && p.MicroBatches < 2*p.Partitions {
		p.Schedule = schedule.ZBV // with fewer micro-batches there is no dualpipe-v
	}
	return p
}

// factor is one setting of a way, with its possible levels.
type factor struct {
	name   string
	levels []string
	set    func(w *way, level int)
}

// drained are the schedules that drain after each mini-batch, interleaved with one chunk, two and three.
var drained = slices.Concat(schedule.Names()[:schedule.Interleaved], []string{"interleaved/1", "interleaved/2", "interleaved/3"}, schedule.Names()[schedule.Interleaved+1:])

var factors = []factor{
	{"K", []string{"1", "2", "3", "5", "8"}, func(w *way, i int) { w.Partitions = []int{1, 2, 3, 5, 8}[i] }},
	{"M", []string{"1", "2", "3", "8", "all"}, func(w *way, i int) { w.MicroBatches = []int{1, 2, 3, 8, w.examples}[i] }},
	{"partitioner", []string{"min-max", "min-variance", "lingvo", "block"}, func(w *way, i int) {
		w.Partitioner = []partition.Partitioner{partition.MinMax, partition.MinVariance, partition.Lingvo, partition.Block}[i]
	}},
	{"schedule", drained, func(w *way, i int) {
		name, chunks, _ := strings.Cut(drained[i], "/")
		w.Schedule, _ = schedule.Parse(name)
		w.Chunks, _ = strconv.Atoi(chunks) // none: 0
	}},
	{"checkpoint", []string{"always", "except-last", "never"}, func(w *way, i int) {
		w.Checkpoint = []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never}[i]
	}},
	{"recompute", []string{"early", "late"}, func(w *way, i int) { w.LateRecompute = i == 1 }},
	{"device", []string{"host", "emulated"}, func(w *way, i int) { w.Devices[0].Kind = []Kind{Host, Emulated}[i] }},
	{"threads", []string{"1", "2"}, func(w *way, i int) { w.Devices[0].Threads = i + 1 }},
	{"cut", []string{"coarse", "fine"}, func(w *way, i int) { w.fine = i == 1 }},
	{"free-memory", []string{"left", "poisoned"}, func(w *way, i int) { w.testing.poison = i == 1 }},
}

// variants are several networks, or settings that decide bits, as a factor.
func variants(name string, levels ...string) factor {
	return factor{name, levels, func(w *way, i int) { w.variant = i }}
}

// everyWay yields ways of a pairwise-covering set, by name. Under -short each setting still
// occurs in one of them at least.
func everyWay(factors []factor, examples int) iter.Seq2[string, way] {
	return func(yield func(string, way) bool) {
		var levels []int
		for _, f := range factors {
			levels = append(levels, len(f.levels))
		}
		cover := stats.CoverPairs
		if testing.Short() {
			cover = stats.CoverEach
		}
		for _, row := range cover(levels) {
			w := way{Pipeline: Pipeline{Devices: []Device{{}}}, examples: examples}
			var name []string
			for f, level := range row {
				factors[f].set(&w, level)
				name = append(name, factors[f].name+"="+factors[f].levels[level])
			}
			if !yield(strings.Join(name, ","), w) {
				return
			}
		}
	}
}

// arithmetic is all of a way that may decide bits. Micro is 0 where the micro-batches do not.
type arithmetic struct {
	variant, groups, micro int
	blocks                 int
	scope                  Scope
}

// plain is the way that has one of everything else.
func (a arithmetic) plain(examples int) way {
	w := way{Pipeline: Pipeline{Replication: Replication{Groups: a.groups, BatchNormScope: a.scope, Blocks: a.blocks}, MicroBatches: a.micro}, examples: examples, variant: a.variant}
	if a.scope != ReplicaScope {
		w.Replicas = a.groups
	}
	return w
}

// checkG1 is guarantee G1: run has one outcome for all ways with one arithmetic, that of the
// plain one, and another hash for each arithmetic. The function of returns that of a way,
// which it may change before to one that the network can run.
func checkG1(t *testing.T, factors []factor, examples int, of func(w *way) arithmetic, run func(t testing.TB, w way) outcome) {
	t.Helper()
	var mu sync.Mutex
	wants, hashes := map[arithmetic]outcome{}, map[string]arithmetic{}
	want := func(t testing.TB, a arithmetic) outcome {
		mu.Lock()
		defer mu.Unlock()
		if _, ok := wants[a]; !ok {
			o := run(t, a.plain(examples))
			o.changes(t)
			if other, ok := hashes[o.hash]; ok {
				t.Errorf("%+v and %+v have one hash", a, other)
			}
			wants[a], hashes[o.hash] = o, a
		}
		return wants[a]
	}
	for name, w := range everyWay(factors, examples) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := of(&w)
			testkit.Equal(t, run(t, w), want(t, a))
		})
	}
}

// byVariant is the arithmetic of networks without groups and batch norm.
func byVariant(w *way) arithmetic { return arithmetic{variant: w.variant} }

// byGroups is the arithmetic of networks with groups.
func byGroups(w *way) arithmetic { return arithmetic{variant: w.variant, groups: w.Groups} }

// "Consequently, gradient updates using GPipe are consistent regardless of the number of
// partitions" (Huang et al. 2019, section 1).
//
// TestG1 checks this package's main guarantee: one hash over a pairwise-covering set
// of ways to run, at every M. Each run is checked for memory (G2) and work (G3) as
// well.
func TestG1(t *testing.T) {
	checkG1(t, append(slices.Clone(factors), variants("tied", "true", "false, final norm")), small.batch, byVariant, func(t testing.TB, w way) outcome {
		l := small
		l.model.Tied, l.model.FinalNorm = w.variant == 0, w.variant == 1
		return l.train(t, w.of(l.cut(t, w.fine)))
	})
}

// large has inner dimensions beyond every cache block of the kernels, in the
// forward (Dim, FeedForward, Vocab) as in the weights' gradients (tokens).
var large = lm{
	model: transformer.Config{Layers: 2, Dim: 300, FeedForward: 600, Heads: 5, Vocab: 1037, SeqLen: 41, Dropout: 0.1},
	batch: 14, ragged: true, smooth: 0.1, steps: 2,
}

func TestG1Large(t *testing.T) {
	testkit.CI(t)
	want := large.train(t, large.pipeline(t))
	for _, c := range []struct {
		k, m, threads int
		s             schedule.Schedule
		c             schedule.Checkpoint
		kind          Kind
	}{
		{1, 5, 2, schedule.GPipe, schedule.Always, Host},
		{2, 14, 1, schedule.GPipe, schedule.ExceptLast, Host},
		{3, 7, 2, schedule.OneFOneB, schedule.Never, Host},
		{4, 3, 2, schedule.GPipe, schedule.Always, Emulated},
	} {
		t.Run(fmt.Sprintf("K=%d/M=%d/threads=%d/%v/%v/%v", c.k, c.m, c.threads, c.s, c.c, c.kind), func(t *testing.T) {
			p := large.pipeline(t)
			p.Partitions, p.MicroBatches, p.Schedule, p.Checkpoint = c.k, c.m, c.s, c.c
			p.Devices = []Device{{Kind: c.kind, Threads: c.threads}}
			testkit.Equal(t, large.train(t, p), want)
		})
	}
}

// A device has its threads, each of which does a part of every kernel (program.TestThreadsTakePart);
// otherwise the runs on two threads above would prove nothing.
func TestThreadsTakePart(t *testing.T) {
	p := small.pipeline(t)
	p.Partitions = 2
	p.Devices = []Device{{Threads: 2}}
	for k, d := range opened(t, p, InputOf(small.data(0))).devices {
		testkit.Equal(t, d.pool.Threads(), 2, "device %d: threads", k)
	}
}
