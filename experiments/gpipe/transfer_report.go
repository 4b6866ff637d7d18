package gpipe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gpipebench/datasets"
	"gpipebench/internal/stats"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

// transferResults are a log's trainings by arm.
type transferResults struct {
	pretraining            trained.Trials
	tuned, scratch, longer []trained.Trials // by set
}

func (x *transfer) results(log *records.Log, p transferProfile) (r transferResults, err error) {
	a := x.arms(p, "")
	read := func(arms []trained.Arm) (all []trained.Trials) {
		if err == nil {
			all, err = trained.Read(log, arms, p.Seeds)
		}
		return all
	}
	first := read([]trained.Arm{a.pretraining})
	r.tuned, r.scratch, r.longer = read(a.tuned), read(a.scratch), read(a.longer)
	if err == nil {
		r.pretraining = first[0]
	}
	return r, err
}

// gains returns by how many percentage points the fine-tuned networks of a set are more
// accurate than others, by seed.
func (r transferResults) gains(set int, others []trained.Trials) []float64 {
	return stats.Differences(r.tuned[set].Accuracies(), others[set].Accuracies())
}

// mean returns the mean of gains over all sets, by seed.
func (r transferResults) mean(others []trained.Trials) []float64 {
	mean := make([]float64, len(r.pretraining.Runs))
	for i := range r.tuned {
		for j, gain := range r.gains(i, others) {
			mean[j] += gain / float64(len(r.tuned))
		}
	}
	return mean
}

// Scores are accuracies in percent on each set, by the paper's set that it stands for.
func (x *transfer) Scores(log *records.Log) (lab.Scores, error) {
	p, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	r, err := x.results(log, p)
	if err != nil {
		return nil, err
	}
	scores := lab.Scores{}
	for i, s := range p.To {
		scores.Put(s.For, "pretrained", r.tuned[i].Accuracies())
		scores.Put(s.For, "from scratch", r.scratch[i].Accuracies())
		scores.Put(s.For, "longer", r.longer[i].Accuracies())
	}
	return scores, nil
}

func (x *transfer) Report(log, reference *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	r, err := x.results(log, p)
	if err != nil {
		return nil, err
	}
	table, err := x.table(log, p, r)
	if err != nil {
		return nil, err
	}
	x.beside(table, log, reference)
	n := len(p.Seeds)
	table.Notes = append([]string{r.verdict(p)}, lab.FewSeedsNote(n)...)
	report := &lab.Report{Tables: []*lab.Table{table}}
	report.Files, err = plot.Figure(x, lab.N(n, "seed"), report.Tables, r.panels(p))
	return report, err
}

// table is the paper's Table 4, with what is from scratch beside it.
func (x *transfer) table(log *records.Log, p transferProfile, r transferResults) (*lab.Table, error) {
	flops, err := x.flops(p)
	if err != nil {
		return nil, err
	}
	table := &lab.Table{
		ID: "transfer", Title: x.Spec.Title,
		Caption: []string{
			fmt.Sprintf("%v, mini-batches of %d. For each of %d seeds the network is trained on the first set (%v). From there it is fine-tuned on each other set: the last layer is new, all others begin with the pretrained weights (%v). From scratch: the same network with random weights, in as many steps (%v). Longer: in as many steps as pretraining and fine-tuning have together (%v). All trainings together have about %s.",
				p.Model, p.Batch, len(p.Seeds), p.Pretraining, p.FineTuning, p.Scratch, p.Longer, units.FormatFLOPs(flops)),
			p.described(),
			"Accuracy is that of the test images, the mean over seeds. Gains are percentage points of the fine-tuned network over that from scratch, the mean over pairs of one seed, with its 95% interval (Student's t), which covers other seeds and not other images.",
			"The paper's accuracies are of the sets in the column before, which these stand for, in the order of their sizes; its network has 557M parameters and was trained on ImageNet. It has none from scratch.",
		},
	}
	table.Texts("data set")
	table.Numbers("train examples", "test examples", "classes", "pretrained", "from scratch", "gain (points)", "longer", "gain over longer (points)")
	table.Texts("stands for")
	table.Numbers("paper")
	counts, err := p.From.counted(log)
	if err != nil {
		return nil, err
	}
	table.Add(p.From.Name, counts, r.pretraining.Accuracy()[0], "", "", "", "", p.From.For, lab.Joined("%v%%", p.From.Paper))
	for i, s := range p.To {
		if counts, err = s.counted(log); err != nil {
			return nil, err
		}
		table.Add(s.Name, counts, r.tuned[i].Accuracy()[0],
			r.scratch[i].Accuracy()[0], lab.Paired(stats.Sampled(r.gains(i, r.scratch)), 2),
			r.longer[i].Accuracy()[0], lab.Paired(stats.Sampled(r.gains(i, r.longer)), 2),
			s.For, lab.Joined("%v%%", s.Paper))
	}
	table.Add("mean of these", "", "", "", "", "", lab.Paired(stats.Sampled(r.mean(r.scratch)), 2), "", lab.Paired(stats.Sampled(r.mean(r.longer)), 2), "", "")
	return table, nil
}

// beside adds a column with the gains of a reference, if there is one of the same sets.
func (x *transfer) beside(table *lab.Table, log, reference *records.Log) {
	if reference == nil {
		return
	}
	p, ok := x.Spec.Profiles[reference.Key.Profile]
	if !ok {
		return
	}
	r, err := x.results(reference, p)
	if err != nil {
		return
	}
	gains := map[string]lab.Value{"": {}}
	for i, s := range p.To {
		gains[s.For] = lab.Paired(stats.Sampled(r.gains(i, r.scratch)), 2)
	}
	table.Numbers(lab.ReferenceName(log, reference) + " gain")
	of := table.Column("stands for")
	for i, row := range table.Rows {
		table.Rows[i] = append(row, gains[row[of].Text])
	}
}

// verdict says on which sets the pretrained network is better than that from scratch in
// as many steps.
func (r transferResults) verdict(p transferProfile) string {
	says := map[int][]string{}
	for i, s := range p.To {
		sign := stats.Sampled(r.gains(i, r.scratch)).Sign()
		says[sign] = append(says[sign], s.Name)
	}
	var parts []string
	for _, o := range []struct {
		sign int
		says string
	}{
		{1, "pretraining gains accuracy, with the whole interval above 0, on"},
		{-1, "pretraining loses accuracy, with the whole interval below 0, on"},
		{0, "the interval contains 0 on"},
	} {
		if names := says[o.sign]; len(names) > 0 {
			parts = append(parts, o.says+" "+strings.Join(names, ", "))
		}
	}
	return "Verdict: " + strings.Join(parts, "; ") + "."
}

// panels draws the accuracies and the gains by set.
func (r transferResults) panels(p transferProfile) []plot.Axes {
	bars := &plot.BarPanel{Title: "accuracy, mean over seeds", Y: "test images (%)"}
	gains := &plot.DotPanel{Title: "pretrained - from scratch, pairs of one seed", Y: "percentage points", Zero: true}
	for _, o := range []struct {
		name string
		of   []trained.Trials
	}{{"pretrained", r.tuned}, {"from scratch", r.scratch}, {"from scratch, longer", r.longer}} {
		s := plot.BarSeries{Name: o.name}
		for _, t := range o.of {
			s.Values = append(s.Values, stats.Mean(t.Accuracies()))
		}
		bars.Series = append(bars.Series, s)
	}
	for i, s := range p.To {
		bars.Names = append(bars.Names, s.Name)
		gains.Add(s.Name, r.gains(i, r.scratch))
	}
	return []plot.Axes{bars, gains}
}

// transferContents is what a set of images was found to be.
type transferContents struct {
	Train   int    `json:"train"` // images
	HeldOut int    `json:"held_out"`
	Classes int    `json:"classes"`
	SHA256  string `json:"data_sha256,omitempty"` // of files: see datasets.Digest
}

// Check requires images of both splits.
func (c *transferContents) Check() error {
	if c.Train < 1 || c.HeldOut < 1 || c.Classes < 2 {
		return fmt.Errorf("%d and %d images of %d classes", c.Train, c.HeldOut, c.Classes)
	}
	return nil
}

// sample is the name of a set's record.
func (s transferSet) sample() string { return "set, " + s.Name }

// read reads every set before anything is trained, and records what it is. A set that
// differs from its record is refused.
func (x *transfer) read(p transferProfile, log *records.Log) error {
	for _, s := range append([]transferSet{p.From}, p.To...) {
		now, err := transferContentsOf(x.training(p, s, p.Scratch, x.Spec.Seed))
		switch {
		case errors.Is(err, fs.ErrNotExist) && p.Make != "":
			return fmt.Errorf("%s, %s: %w: want `make %s` first, which brings it, or --spec with a copy of the spec that names other data", x.ID(), s.Name, err, p.Make)
		case err != nil:
			return fmt.Errorf("%s, %s: %w", x.ID(), s.Name, err)
		}
		if !log.Has(s.sample()) {
			if err := log.Add(s.sample(), x.Spec.Seed, now); err != nil {
				return err
			}
			continue
		}
		var was transferContents
		if err := log.Get(s.sample(), &was); err != nil {
			return err
		}
		if was != *now {
			return fmt.Errorf("%s, %s: %s has %d and %d images of %d classes, digest %.16s, and its record %d and %d of %d, digest %.16s: want the same images, or --fresh, which measures anew",
				x.ID(), s.Name, s.Data, now.Train, now.HeldOut, now.Classes, now.SHA256, was.Train, was.HeldOut, was.Classes, was.SHA256)
		}
	}
	return nil
}

// transferContentsOf reads the images of a training.
func transferContentsOf(t train.Training) (*transferContents, error) {
	s, err := t.Source()
	if err != nil {
		return nil, err
	}
	return &transferContents{Train: s.Batches(datasets.Train, 1), HeldOut: s.Batches(datasets.HeldOut, 1), Classes: s.Vocab(), SHA256: datasets.Digest(s)}, nil
}

// counted returns what the table has of a set: training and test images, and classes.
func (s transferSet) counted(log *records.Log) ([]any, error) {
	var c transferContents
	if err := log.Get(s.sample(), &c); err != nil {
		return nil, err
	}
	return []any{c.Train, c.HeldOut, c.Classes}, nil
}

func (s transferSet) heldOutOf() int { return cmp.Or(s.HeldOutOf, datasets.DefaultHeldOutOf) }

// described says in a caption what images the sets of a profile have, and how those of
// training are changed.
func (p transferProfile) described() string {
	text := "Sets are procedural images that differ in shapes and textures, in number and in noise"
	if p.From.Data != "synthetic" {
		var parts []string
		for _, s := range p.To {
			parts = append(parts, fmt.Sprint(s.heldOutOf()))
		}
		text = fmt.Sprintf("Sets are images in files, whose digests are in the records; of every class one image of %d is for testing in the set of the pretraining, one of %s in the others",
			p.From.heldOutOf(), strings.Join(slices.Compact(parts), ", "))
	}
	return fmt.Sprintf("%s. Training images are randomly mirrored: %s; cropped from a margin of %d pixels; and a square of %d pixels is cut out.", text, lab.YesOrNo(p.Images.Flip), p.Images.Crop, p.Images.Cutout)
}
