package gpipe

import (
	"slices"
	"testing"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"

	"gpipebench/internal/testkit"
	"gpipebench/models/transformer"
	"gpipebench/nn/graph"
)

// TestGatherTied: gathered gradients end with the bits of reduced ones, which one hash for
// each number of groups shows, over R = 1 to 8, stages, schedules, devices and threads;
// of a translator's table with two and with three uses, and of a language model's.
// Dropout and clipping are on. Each run is checked for memory (G2) and work (G3).
func TestGatherTied(t *testing.T) {
	language := small
	language.batch, language.steps = 17, 2
	translator := smallTranslation
	translator.batch, translator.steps = 17, 2
	all := slices.DeleteFunc(groupsWays([]int{1, 2, 3, 4, 5, 6, 7, 8}, 17), func(f factor) bool { return f.name == "update" })
	all = append(all, variants("network", "all", "softmax", "language model"),
		factor{"gradients", []string{"gathered"}, func(w *way, _ int) { w.TiedGradients = GatherTied }}) // the plain way's are reduced
	checkG1(t, all, 17, byGroups, func(t testing.TB, w way) outcome {
		if w.variant == 2 {
			return language.train(t, w.of(language.cut(t, w.fine)))
		}
		m := translator
		m.model.Tie = []transformer.Tie{transformer.TieAll, transformer.TieSoftmax}[w.variant]
		return m.train(t, w.of(m.cut(t, w.fine)))
	})
}

// The plan has, besides what a reduced training's has, the rows of all replicas with their
// indices, as the formula says: P (V + source tokens + target tokens) of them, 4 bytes a
// value and an index. A language model's has no row for targets, and groups of a replica
// have rows of their own.
func TestGatheredBytes(t *testing.T) {
	m := smallTranslation
	m.batch = 16
	l := small
	l.batch = 16
	for _, c := range []struct {
		name              string
		pipeline          Pipeline
		in                Input
		vocab, dim, token int
	}{
		{"translator", m.pipeline(t), InputOf(m.data(0)), 19, 16, 7 + 6},
		{"language model", l.pipeline(t), InputOf(l.data(0)), l.model.Vocab, l.model.Dim, l.model.SeqLen},
	} {
		for _, way := range [][2]int{{1, 1}, {2, 2}, {4, 4}, {8, 8}, {2, 8}, {1, 5}} {
			p := c.pipeline
			p.Replicas, p.Groups = way[0], way[1]
			bytes := func(how TableGradients) int64 {
				p.TiedGradients = how
				n := must(p.network(c.in))(t)
				plans := must(affordable(n, p.KeepsState, func(place.Place) bool { return true }))(t)
				for _, plan := range plans {
					testkit.Equal(t, plans[0].Bytes[Gradients], plan.Bytes[Gradients], "%v: %d bytes, the first", plan.At, plan.Bytes[Gradients])
				}
				return plans[0].Bytes[Gradients]
			}
			rows := way[1]*c.vocab + 16*c.token
			// A replica's sums of groups have no gathered table.
			sums := int64(reduction.Depth(way[1]/way[0])*c.vocab*c.dim) * plan.FloatBytes
			want := int64(rows)*int64(c.dim+1)*plan.FloatBytes - sums
			const padding = 3 * 64 // of each tensor to a cache line
			if got := bytes(GatherTied) - bytes(ReduceTied); got < want || got >= want+padding {
				t.Errorf("%s, R = %d, G = %d: %d bytes more, want %d", c.name, way[0], way[1], got, want)
			}
		}
	}
}

// A capacity that the rows exceed is refused with their table.
func TestGatheredRowsDoNotFit(t *testing.T) {
	p := smallTranslation.pipeline(t)
	p.Replicas, p.TiedGradients = 4, GatherTied
	plan := must(p.Plans(InputOf(smallTranslation.data(0))))(t).Plans[0]
	p.Devices = []Device{{Capacity: plan.Bytes[Parameters] + plan.Bytes[OptimizerState] + plan.Bytes[Gradients] - 9000}}
	testkit.Refused(p.Open(InputOf(smallTranslation.data(0))))(t, "source/table", "gradients")
}

// The time of gathering and adding up rows is an event of its own and a part of the
// breakdown, on emulated devices with the time of the replicas' links; reduced gradients
// have neither.
func TestRowsOnTheTimeline(t *testing.T) {
	for _, kind := range []Kind{Host, Emulated} {
		for _, how := range []TableGradients{ReduceTied, GatherTied} {
			p := smallTranslation.pipeline(t)
			p.Replicas, p.Partitions, p.MicroBatches, p.TiedGradients = 2, 2, 2, how
			p.Devices = []Device{{Kind: kind, Link: clock.Link{Bandwidth: 1e6}}}
			if kind == Host {
				p.Devices[0].Link = clock.Link{}
			}
			p.AllReduce.Link = clock.Link{Bandwidth: 1e5}
			tr := opened(t, p, InputOf(smallTranslation.data(0)))
			r := stepped(t, tr, smallTranslation.data(0))
			checkTimeline(t, r)
			events, want := 0, 0
			for _, e := range r.Timeline.Events {
				if e.Kind == timeline.Rows {
					events++
				}
			}
			parts := must(r.Times.Breakdown())(t)
			if how == GatherTied {
				want = 4 // one a device
				rows := tr.net.Tables[0]
				if link := float64(rows.Bytes(0, rows.Rows)) / 2 / p.AllReduce.Link.Bandwidth; parts.Rows < link {
					t.Errorf("%v: rows take %v s, and the link alone %v", kind, parts.Rows, link)
				}
				var last int64
				for _, x := range r.Times.Last(0) {
					last += x.Bytes
				}
				if both := rows.Bytes(0, rows.Rows) / 2; last < both-rows.Bytes(0, 20) || last > both+rows.Bytes(0, 20) {
					t.Errorf("%v: %d bytes between stages, want the rows of a replica, about %d", kind, last, both)
				}
			} else if parts.Rows != 0 {
				t.Errorf("%v: reduced gradients spend %v s on rows", kind, parts.Rows)
			}
			testkit.Equal(t, events, want, "%v, %v: events of rows", kind, how)
			if sum := parts.Sum(); sum < parts.Step*(1-1e-9) || sum > parts.Step*(1+1e-9) {
				t.Errorf("%v, %v: parts of %v s, the step takes %v", kind, how, sum, parts.Step)
			}
		}
	}
}

// Rows of bfloat16 are gathered as the float32 that they are added up as.
func TestGatherTiedBF16(t *testing.T) {
	hash := func(how TableGradients) outcome {
		p := smallTranslation.pipeline(t)
		p.DType, p.Replicas, p.Partitions, p.TiedGradients = graph.BF16, 3, 2, how
		return smallTranslation.train(t, p)
	}
	testkit.Equal(t, hash(GatherTied), hash(ReduceTied))
}

// A recorded step shows how each tensor is added up over replicas: the table gathered or
// reduced, after its gradients, with data from every peer, and ready no later than any
// activity; in one process and in several. Without the option there is no record.
func TestReductionsOfAStep(t *testing.T) {
	for _, how := range []TableGradients{ReduceTied, GatherTied} {
		for _, ranks := range []int{1, 3} {
			ps := &processes{}
			for _, end := range transport.Ends(ranks, func(p place.Place) int { return p.Replica % ranks }) {
				p := smallTranslation.pipeline(t)
				p.Replicas, p.Partitions, p.TiedGradients, p.RecordsReductions = 3, 2, how, true
				if ranks > 1 {
					p.Transport = end
				}
				ps.trainers = append(ps.trainers, opened(t, p, InputOf(smallTranslation.data(0))))
			}
			ps.all(func(rank int, tr *Trainer) {
				r, err := tr.Step(t.Context(), smallTranslation.data(0))
				if err != nil {
					t.Error(err)
					return
				}
				checkTimeline(t, r)
				tables, others := 0, 0
				for _, of := range r.Timeline.Reductions {
					if of.Tensor != "embedding/source/table" {
						others++
						if of.Gathered {
							t.Errorf("%s is gathered", of.Tensor)
						}
						continue
					}
					tables++
					seen := map[timeline.ActivityKind]int{}
					peers := map[int]bool{}
					end := of.Ready
					for _, a := range of.Activities {
						if a.Start < end || a.End < a.Start {
							t.Errorf("%+v, after %v s", a, end)
						}
						end = a.End
						seen[a.Kind]++
						if a.Kind == timeline.Carry && a.Bytes <= 0 {
							t.Errorf("%+v carries nothing", a)
						}
						peers[a.Peer] = true
					}
					delete(peers, -1)
					gathered := how == GatherTied
					if of.Gathered != gathered || seen[timeline.PackRows] != seen[timeline.SumRows] || (seen[timeline.PackRows] == 1) != gathered ||
						seen[timeline.WaitForData] == 0 || gathered && len(peers) != 2 {
						t.Errorf("%v, %d processes: %+v", how, ranks, of)
					}
				}
				if tables != 3*2 || others != 3*(len(tr.net.Params)-1) {
					t.Errorf("%v: %d reductions of the table and %d others, want one a device that has it", how, tables, others)
				}
			})
		}
	}
	p := smallTranslation.pipeline(t)
	p.Replicas = 2
	tr := opened(t, p, InputOf(smallTranslation.data(0)))
	if r, err := tr.Step(t.Context(), smallTranslation.data(0)); err != nil || r.Timeline.Reductions != nil {
		t.Errorf("%v, %d reductions, want none", err, len(r.Timeline.Reductions))
	}
}
