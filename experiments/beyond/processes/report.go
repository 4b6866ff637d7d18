package processes

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpipebench/experiments/launch"
	"gpipebench/gpipe"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// found is what a report has found so far.
type found struct {
	runs, different, inexact int
	still                    bool // a run trained nothing
	wasted                   bool // a device used other memory than was planned
}

// loads are the kinds of what is sent here: no training gathers rows of tied tables, which
// are the last kind.
const loads = gpipe.GatheredRows

// Report compares weights, and bytes with the plan.
func (x *processes) Report(log, reference *records.Log) (*lab.Report, error) {
	networks := &lab.Table{ID: x.ID() + "-networks", Title: x.Title()}
	networks.Texts("training", "network")
	networks.Numbers("runs", "that differ", "SHA-256 values")
	networks.Texts("processes", "K", "R", "SHA-256 of the weights")
	runs := &lab.Table{ID: x.ID(), Title: "Processes: each run"}
	runs.Texts("training", "network", "order of devices", "update")
	runs.Numbers("processes", "K", "R", "final loss")
	runs.Texts("SHA-256 of the weights", "equal")
	traffic := &lab.Table{ID: x.ID() + "-traffic", Title: "Processes: bytes that a step sends from process to process", Caption: []string{
		"As the receivers count them, of all processes together; planned: what follows from shapes, layouts and the division alone. The same over each network.",
	}}
	traffic.Texts("training", "order of devices", "update")
	traffic.Numbers("processes", "K", "R")
	for l := range loads {
		traffic.Numbers(l.String())
	}
	traffic.Numbers("all", "planned")
	traffic.Texts("as planned")
	var panels []plot.Axes
	var so found
	for i := range x.Spec.Trainings {
		t := &x.Spec.Trainings[i]
		networks.Caption = append(networks.Caption, fmt.Sprintf("%s: %s, mini-batches of %d in %d groups of %d micro-batches.", t.Name, t.Title, t.Batch, t.G, t.M))
		first, err := x.addRuns(networks, runs, t, log, &so)
		if err != nil {
			return nil, err
		}
		panel, err := x.addTraffic(traffic, t, log, &so)
		if err != nil {
			return nil, err
		}
		panels = append(panels, panel)
		if reference != nil {
			var ref Record
			if err := reference.Get(t.sample(x.Spec.ways(t)[0]), &ref); err == nil && len(ref.Losses) == len(first.Losses) {
				same := "different"
				if ref.SHA256 == first.SHA256 {
					same = "the same"
				}
				networks.Notes = append(networks.Notes, fmt.Sprintf("Reference, %s: %s (%s kernels; hashes may differ between kernel profiles); the hash here is %s.",
					t.Name, ref.SHA256[:16], reference.Session.Machine.Kernels, same))
			}
		}
	}
	r := &lab.Report{Tables: []*lab.Table{networks, runs, traffic}}
	verdict := fmt.Sprintf("all %d runs agree to the bit, in every weight and every loss, with the first run of their training; what processes sent each other is what the plan says, to the byte.", so.runs)
	for _, c := range []struct {
		is   bool
		says string
	}{
		{so.different > 0, fmt.Sprintf("%d of %d runs DIFFER from the first run of their training", so.different, so.runs)},
		{so.still, "a run ended with the weights that it began with: nothing was trained"},
		{so.inexact > 0, fmt.Sprintf("in %d runs processes sent OTHER bytes than planned", so.inexact)},
		{so.wasted, "a device did not use exactly the planned memory"},
	} {
		if c.is {
			verdict, r.Verdict = c.says+".", errors.New(x.ID()+": "+c.says)
			break
		}
	}
	networks.Notes = append([]string{"Verdict: " + verdict}, networks.Notes...)
	var err error
	r.Files, err = plot.Files(x.ID(), "Bytes of a step from process to process (P processes; s: divided by stage; d: divided updates)", plot.OneScale(panels))
	return r, err
}

// addRuns adds a training's runs and, of each network, what they tried.
func (x *processes) addRuns(networks, runs *lab.Table, t *training, log *records.Log, so *found) (first *Record, err error) {
	for _, network := range append([]string{""}, x.Spec.Networks...) {
		var tried, differ int
		var hashes []string
		ps, ks, rs := map[int]bool{}, map[int]bool{}, map[int]bool{}
		for _, w := range x.Spec.ways(t) {
			if w.Network != network || missing(network, t.sample(w), log) {
				continue
			}
			r := &Record{}
			if err := log.Get(t.sample(w), r); err != nil {
				return nil, err
			}
			equal := "yes"
			switch {
			case first == nil:
				first, equal = r, "is compared with"
			case r.SHA256 != first.SHA256 || !slices.Equal(r.Losses, first.Losses):
				differ++
				equal = "NO"
			}
			tried++
			ps[w.Processes], ks[w.K], rs[w.R] = true, true, true
			if hash := r.SHA256[:16]; !slices.Contains(hashes, hash) {
				hashes = append(hashes, hash)
			}
			so.still = so.still || r.SHA256 == r.Initial
			so.wasted = so.wasted || !slices.Equal(r.Peak, r.HighWater)
			runs.Add(t.Name, name(network), orDash(w.Spread), w.update(), w.Processes, w.K, w.R, lab.Fixed(r.Losses[len(r.Losses)-1], 6), r.SHA256[:16], equal)
		}
		so.runs, so.different = so.runs+tried, so.different+differ
		if tried == 0 {
			networks.Add(t.Name, name(network), lab.Absent, lab.Absent, lab.Absent, "-", "-", "-", launch.Lacks(network))
			continue
		}
		networks.Add(t.Name, name(network), tried, differ, len(hashes), numbers(ps), numbers(ks), numbers(rs), strings.Join(hashes, ", "))
	}
	return first, nil
}

// missing reports whether a run is left out since this program lacks its network.
func missing(network, sample string, log *records.Log) bool {
	return launch.Lacks(network) != "" && !log.Has(sample)
}

// name is a network's in tables.
func name(network string) string {
	switch network {
	case "":
		return "one process"
	case "unix":
		return "Unix sockets"
	}
	return strings.ToUpper(network)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// addTraffic adds what a training's processes sent, once for all networks, and draws it.
func (x *processes) addTraffic(table *lab.Table, t *training, log *records.Log, so *found) (*plot.BarPanel, error) {
	panel := &plot.BarPanel{Title: t.Name, Y: "KiB in a step", Stacked: true}
	kinds := make([]plot.BarSeries, loads)
	sum := map[string]bool{} // that are not 0
	for _, w := range x.Spec.ways(t) {
		if w.Processes == 1 || w.Network != x.Spec.Networks[0] {
			continue
		}
		exact, shown := true, (*Record)(nil)
		for _, network := range x.Spec.Networks {
			if w.Network = network; missing(network, t.sample(w), log) {
				continue
			}
			r := &Record{}
			if err := log.Get(t.sample(w), r); err != nil {
				return nil, err
			}
			if shown == nil {
				shown = r
			}
			if !r.exact() || !samePlan(r, shown) {
				exact = false
				so.inexact++
			}
		}
		if shown == nil {
			continue
		}
		cells := []any{t.Name, w.Spread, w.update(), w.Processes, w.K, w.R}
		var all, planned int64
		for l := range loads {
			of := travelled(shown, l)
			all, planned = all+of.Bytes, planned+of.PlannedBytes
			cells = append(cells, lab.Bytes(of.Bytes))
			kinds[l].Add(float64(of.Bytes) / 1024)
			sum[l.String()] = sum[l.String()] || of.Bytes > 0
		}
		label := fmt.Sprintf("P%d K%d R%d", w.Processes, w.K, w.R)
		if w.Spread == "stage" {
			label += " s"
		}
		if w.Shard {
			label += " d"
		}
		panel.Names = append(panel.Names, label)
		table.Add(append(cells, lab.Whole(all, fmt.Sprint(all)), lab.Whole(planned, fmt.Sprint(planned)), map[bool]string{true: "yes", false: "NO"}[exact])...)
	}
	for l := range loads {
		if kinds[l].Name = l.String(); sum[l.String()] {
			panel.Series = append(panel.Series, kinds[l])
		}
	}
	return panel, nil
}

// travelled is what a run's processes sent of a kind.
func travelled(r *Record, l gpipe.Load) (of train.Travelled) {
	for _, t := range r.Traffic {
		if t.What == l.String() {
			return t
		}
	}
	return of
}

// samePlan reports whether two runs were to send the same bytes of each kind.
func samePlan(a, b *Record) bool {
	for l := range loads {
		if travelled(a, l).PlannedBytes != travelled(b, l).PlannedBytes {
			return false
		}
	}
	return true
}
