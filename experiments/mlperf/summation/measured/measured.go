// Package measured adds up the gradients of a network between processes, with gathers before
// the sum or pipelined with it.
package measured

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strconv"

	"gpipebench/experiments/launch"
	"gpipebench/experiments/mlperf/summation/sums"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "summation-measured", Folder: folder, New: lab.New[measured], Command: "gradient-summation"}

// spec is spec.yaml.
type spec struct {
	lab.Head  `yaml:",inline"`
	Model     train.Model  `yaml:"model"`
	Processes int          `yaml:"processes" want:"2..64"`
	Networks  []string     `yaml:"networks" want:"network"`
	Paper     lab.Verbatim `yaml:"paper"`

	Profiles map[string]profile `yaml:"profiles"`
}

type profile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Rounds   int      `yaml:"rounds" want:"1..1000"`
	Times    int      `yaml:"times" want:"1..999"`
}

// measured starts processes.
type measured struct {
	lab.Base[spec]
	launch.Program
}

func (x *measured) Resolve() *lab.Problem { return nil }

func (x *measured) Planned(string) []lab.PlannedRun {
	return []lab.PlannedRun{{Path: []string{"model"}, Run: lab.ModelledRun{Model: x.Spec.Model, Most: 1}}}
}

// run is a way over a network.
type run struct {
	network string
	way     sums.Way
}

// runs are those of each round.
func (x *measured) runs() (all []run) {
	for _, network := range x.Spec.Networks {
		for _, way := range sums.Ways() {
			all = append(all, run{network, way})
		}
	}
	return all
}

func (r run) sample(round int) string { return fmt.Sprintf("%s/%v/round=%d", r.network, r.way, round) }

// Record is what the processes of a run have done.
type Record struct {
	Command []string       `json:"command"` // of each process
	Ranks   []sums.Outcome `json:"ranks"`
}

// Check requires ranks in their order, each with as many times as the others, and one hash.
func (r *Record) Check() error {
	if len(r.Ranks) < 2 {
		return fmt.Errorf("%d ranks: want 2 or more", len(r.Ranks))
	}
	for i, o := range r.Ranks {
		if o.Rank != i || o.Received < 1 || len(o.Sums) < 2 || len(o.Sums) != len(r.Ranks[0].Sums) || len(o.Copies) != len(o.Sums) || slices.Min(o.Sums) <= 0 {
			return fmt.Errorf("rank %d: rank %d, %d bytes received, sums of %v s, copies of %v s", i, o.Rank, o.Received, o.Sums, o.Copies)
		}
		if err := records.CheckHash("sha256", o.SHA256); err != nil {
			return err
		}
	}
	return nil
}

// seconds are the medians of a record's sums, and of their copies, without the first: of the
// slowest rank each time.
func (r *Record) seconds() (whole, copies float64) {
	var all, of []float64
	for i := 1; i < len(r.Ranks[0].Sums); i++ {
		longest, copied := 0.0, 0.0
		for _, o := range r.Ranks {
			longest, copied = max(longest, o.Sums[i]+o.Copies[i]), max(copied, o.Copies[i])
		}
		all, of = append(all, longest), append(of, copied)
	}
	return stats.Median(all), stats.Median(of)
}

// Measure runs what the log lacks, round after round. Which run is first moves.
func (x *measured) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	runs := slices.DeleteFunc(x.runs(), func(r run) bool { return launch.Lacks(r.network) != "" })
	lacks := 0
	for round := range profile.Rounds {
		for _, r := range runs {
			if !log.Has(r.sample(round)) {
				lacks++
			}
		}
	}
	if lacks == 0 {
		return nil
	}
	p.Begin(fmt.Sprintf("%s: %d rounds of %d runs, each in processes of its own", x.ID(), profile.Rounds, len(runs)), lacks)
	defer p.End()
	for round := range profile.Rounds {
		for i := range runs {
			r := runs[(i+round)%len(runs)]
			if log.Has(r.sample(round)) {
				continue
			}
			made := Record{Command: slices.Concat(
				[]string{sums.Command, "--way", r.way.String(), "--times", strconv.Itoa(profile.Times + 1), "--seed", strconv.FormatUint(x.Spec.Seed, 10)}, x.Spec.Model.Flags(),
			)}
			if err := x.Run(ctx, x.Spec.Processes, r.network, made.Command, &made.Ranks); err != nil {
				return fmt.Errorf("%s: %w", r.sample(round), err)
			}
			if err := log.Add(r.sample(round), x.Spec.Seed, made); err != nil {
				return err
			}
			whole, _ := made.seconds()
			p.Advance(r.sample(round) + "  " + units.FormatSeconds(whole))
		}
	}
	return nil
}

// results are a run's of all rounds.
type results struct {
	whole, copies []float64
	hash          string // of all ranks and rounds; "": they differ
	bytes         int64  // that all ranks received, of one sum
}

func (x *measured) read(log *records.Log, rounds int, r run) (*results, error) {
	of := &results{}
	for round := range rounds {
		var rec Record
		if err := log.Get(r.sample(round), &rec); err != nil {
			return nil, err
		}
		if round == 0 {
			of.hash = rec.Ranks[0].SHA256
		}
		of.bytes = 0
		for _, o := range rec.Ranks {
			of.bytes += o.Received
			if o.SHA256 != of.hash {
				of.hash = ""
			}
		}
		whole, copies := rec.seconds()
		of.whole, of.copies = append(of.whole, whole), append(of.copies, copies)
	}
	return of, nil
}

func (x *measured) Report(log, reference *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	sizes, err := x.Spec.Model.TrainedSizes()
	if err != nil {
		return nil, err
	}
	total := 0
	for _, n := range sizes {
		total += n
	}
	t := &lab.Table{ID: x.ID(), Title: x.Title(), Caption: []string{
		fmt.Sprintf("%d float32 gradients of %v in %d tensors, added up by %d processes of this machine. Each of %d rounds starts every row's two ways in processes of their own, and takes the median of %d sums, each of the slowest process. Median of the rounds, ratios within a round; in brackets the 95%% interval of order statistics.",
			total, x.Spec.Model, len(sizes), x.Spec.Processes, p.Rounds, p.Times),
		"Copies: of all tensors into the buffer and from it, a part of gathered first. Speedup: gathered first over pipelined. Hidden: what it would be if the copies took no time beside the same sum.",
	}}
	t.Texts("network")
	t.Numbers("tensors", "bytes", "gathered first", "95%, first", "copies", "pipelined", "95%, pipelined", "measured speedup", "95%, speedup", "hidden", "paper, more than", "pipelined GB/s")
	t.Texts("same bits", "SHA-256")
	if reference != nil {
		t.Numbers("speedup, " + lab.ReferenceName(log, reference))
	}
	rep := &lab.Report{Tables: []*lab.Table{t}}
	bars := &plot.BarPanel{Title: "adding up gradients", Y: "ms"}
	series := [2]plot.BarSeries{{Name: "gathered first"}, {Name: "pipelined"}}
	travels := int64(4*2*total) * int64(x.Spec.Processes-1)
	for _, network := range x.Spec.Networks {
		if launch.Lacks(network) != "" && !log.Has(run{network, sums.First}.sample(0)) {
			continue
		}
		first, err := x.read(log, p.Rounds, run{network, sums.First})
		if err != nil {
			return nil, err
		}
		piped, err := x.read(log, p.Rounds, run{network, sums.Pipelined})
		if err != nil {
			return nil, err
		}
		same := first.hash != "" && first.hash == piped.hash
		if !same || first.bytes != travels || piped.bytes != travels {
			rep.Verdict = fmt.Errorf("%s, %s: the ways end with other bits, or send OTHER bytes than an all-reduce", x.ID(), network)
		}
		hidden := make([]float64, p.Rounds)
		for i, whole := range first.whole {
			hidden[i] = whole / (whole - first.copies[i])
		}
		row := []any{
			network, len(sizes), lab.Whole(int64(4*total), fmt.Sprint(4*total)), lab.Median(first.whole, lab.Seconds), lab.Seconds(stats.Median(first.copies)), lab.Median(piped.whole, lab.Seconds),
			lab.Ratio(stats.RatioOf(first.whole, piped.whole), false), lab.Fixed(stats.Median(hidden), 2), x.Spec.Paper,
			lab.Fixed(4e-9*float64(total)/stats.Median(piped.whole), 2), lab.YesOrNo(same), fmt.Sprintf("%.16s", first.hash),
		}
		if reference != nil {
			row = append(row, x.referred(reference, network))
		}
		t.Add(row...)
		bars.Names = append(bars.Names, network)
		series[0].Add(1e3 * stats.Median(first.whole))
		series[1].Add(1e3 * stats.Median(piped.whole))
	}
	bars.Series = series[:]
	t.Notes = lab.FewRoundsNote(p.Rounds)
	if reference != nil {
		t.Notes = append(t.Notes, lab.ReferenceNote(reference))
	}
	rep.Files, err = plot.Files(x.ID(), x.Title(), []plot.Axes{bars})
	return rep, err
}

// referred is the reference's speedup.
func (x *measured) referred(reference *records.Log, network string) lab.Value {
	p, err := lab.ProfileOf(x.Spec.Profiles, reference.Key.Profile)
	if err != nil {
		return lab.Absent
	}
	first, err := x.read(reference, p.Rounds, run{network, sums.First})
	if err != nil {
		return lab.Absent
	}
	piped, err := x.read(reference, p.Rounds, run{network, sums.Pipelined})
	if err != nil {
		return lab.Absent
	}
	return lab.Fixed(stats.RatioOf(first.whole, piped.whole).Median, 2)
}
