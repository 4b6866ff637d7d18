package gpipe

import (
	"fmt"
	"slices"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/models/ssd"
	"gpipebench/nn"
)

// smallSSD has maps from 18 rows down to one.
var smallSSD = images{
	layers: func(bool) ([]nn.Layer, error) { return ssd.New(ssd.Config{Width: 4, Classes: imageClasses, Image: 70}) },
	loss:   ssd.Loss{},
	size:   70, sizes: []int{4, 4, 3}, least: 1, norm: true,
}

// TestG1Spatial is G1 for stages whose images are divided over parts: the hash of the
// undivided network at each M, for 2 to 4 parts, in a pairwise-covering set of ways to run,
// replicas among them. Each run is checked for memory and work as well.
func TestG1Spatial(t *testing.T) {
	all := slices.DeleteFunc(slices.Clone(factors), func(f factor) bool {
		return !slices.Contains([]string{"checkpoint", "device", "threads", "free-memory"}, f.name)
	})
	whole := append(schedule.Plain(), schedule.Interleaved) // in which no B is split
	all = append(all,
		factor{"S", []string{"2", "3", "4"}, func(w *way, i int) { w.Spatial = 2 + i }},
		factor{"R", []string{"1", "2"}, func(w *way, i int) { w.Groups, w.Replicas = 2, 1+i }},
		factor{"K", []string{"1", "2", "3"}, func(w *way, i int) { w.Partitions = 1 + i }},
		factor{"M", []string{"1", "2"}, func(w *way, i int) { w.MicroBatches = 1 + i }},
		factor{"schedule", schedule.Names()[:len(whole)], func(w *way, i int) {
			if w.Schedule = whole[i]; w.Schedule == schedule.Interleaved {
				w.Chunks = 2
			}
		}},
	)
	networks := []images{smallAmoebaNet, smallAmoebaNetB, smallResNet, smallConvolutions, smallSSD}
	all = append(all, variants("network", "amoebanet", "amoebanet-b", "resnet", "convolutions", "ssd"))
	checkG1(t, all, 4, func(w *way) arithmetic { return networks[w.variant].arithmetic(*w) }, func(t testing.TB, w way) outcome {
		n := networks[w.variant]
		return train(t, w.of(n.pipeline(t, false)), len(n.sizes), n.data) // the last of them short
	})
}

// TestSpatialPurposes: evaluations and predictions of a divided network have the bits of the
// undivided one, also right after a step and after weights were set, and all of the plan is used.
func TestSpatialPurposes(t *testing.T) {
	for name, n := range map[string]images{"amoebanet": smallAmoebaNet, "resnet": smallResNet} {
		if testing.Short() && name != "resnet" {
			continue
		}
		outcomes := func(parts int) (all []string) {
			p := n.pipeline(t, false)
			p.Partitions, p.MicroBatches, p.Spatial = 2, 2, parts
			tr := n.open(t, p)
			see := func() {
				r := must(tr.Evaluate(t.Context(), n.data(1)))(t)
				all = append(all, fmt.Sprint(r.Loss, r.Ranks))
				for _, i := range []int{2, 0} { // short, and as large as any
					outputs := must(tr.Predict(t.Context(), n.data(i).Inputs...))(t)
					all = append(all, fmt.Sprint(outputs))
				}
			}
			see()
			for i := range n.sizes {
				stepped(t, tr, n.data(i))
				see()
			}
			checkMemory(t, tr)
			return append(all, tr.Hash())
		}
		want := outcomes(1)
		for _, parts := range []int{2, 3} {
			testkit.EqualAll(t, outcomes(parts), want, "%s in %d parts: other outcomes", name, parts)
		}
	}
}

// A trainer whose images are divided takes those of one size.
func TestPartsOfAnotherSize(t *testing.T) {
	p := smallResNet.pipeline(t, false)
	p.Spatial = 2
	tr := smallResNet.open(t, p)
	smaller := smallResNet
	smaller.size--
	testkit.Refused(tr.Step(t.Context(), smaller.data(0)))(t, "in parts: want")
}

// A capacity that the stage's device keeps, and another part does not, is refused; the
// largest part's plan suffices.
func TestPartCapacity(t *testing.T) {
	p := smallResNet.pipeline(t, false)
	p.Spatial = 3
	in := InputOf(smallResNet.data(0))
	plan := must(p.Plans(in))(t).Plans[0]
	for _, part := range append([]*Plan{plan}, plan.Parts...) {
		p.Devices = []Device{{Capacity: part.Peak - 1}}
		if must(p.Plans(in))(t).OutOfMemory == nil {
			t.Errorf("a capacity of %d bytes, %d for a part: no error", part.Peak-1, part.Peak)
		}
	}
	most := plan.Peak
	for _, part := range plan.Parts {
		most = max(most, part.Peak)
	}
	p.Devices = []Device{{Capacity: most}}
	testkit.Equal(t, must(p.Plans(in))(t).OutOfMemory, nil, "a capacity of %d bytes, the largest part's", most)
}
