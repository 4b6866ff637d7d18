package claims

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpipebench/internal/expr"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/verdict"
)

// Compared is what a primary of a design came to, of a claim that names it.
type Compared struct {
	Seeds      int      `json:"seeds"`
	Mean       float64  `json:"mean"` // of the differences, positive as claimed
	SD         float64  `json:"sd"`
	Low        float64  `json:"low"` // the interval of the mean at Level
	High       float64  `json:"high"`
	Unit       string   `json:"unit"`
	Margin     float64  `json:"margin"`
	Level      float64  `json:"level"`      // after Holm's correction and the look
	P          float64  `json:"p"`          // the least level at which there would be a verdict
	Detectable float64  `json:"detectable"` // the least effect that is seen at 80% power
	Gates      []Passed `json:"gates,omitempty"`
	// Unfinished says how many of the seeds have run; "": all have.
	Unfinished string `json:"unfinished,omitempty"`
	// Exploratory is why the design was not registered; "": it was.
	Exploratory string `json:"exploratory,omitempty"`

	signs string // of a test of signs
}

// Passed is a condition of competence and whether it is met.
type Passed struct {
	That   string `json:"that"`
	Passed string `json:"passed"` // yes, no, unknown
}

func (c *Compared) String() string {
	if c.signs != "" {
		return fmt.Sprintf("%s (p = %.2g, level %.2g)", c.signs, c.P, c.Level)
	}
	margin := ""
	if c.Margin > 0 {
		margin = fmt.Sprintf(", margin %g", c.Margin)
	}
	return fmt.Sprintf("%+.3g [%+.3g, %+.3g] %s (%d seeds, %.4g%% interval%s)", c.Mean, c.Low, c.High, c.Unit, c.Seeds, 100*(1-c.Level), margin)
}

// judged is a family with its verdicts.
type judged struct {
	*lab.Family
	experiment string
	cost       records.Cost
	results    []verdict.Result
	passed     map[string]verdict.Passed // by a gate's words
}

// families judges the designs of the experiments whose records are usable, each as a whole, since
// a comparison's level depends on the others.
func families(all []*Examined, tables tablesOf) (map[string]*judged, error) {
	families := map[string]*judged{}
	for _, x := range all {
		if !x.Usable || x.report.Family == nil {
			continue
		}
		f := &judged{Family: x.report.Family, experiment: x.Experiment, cost: x.cost}
		if err := f.judge(tables); err != nil {
			return nil, fmt.Errorf("design of %s: %w", x.Experiment, err)
		}
		families[x.Experiment] = f
	}
	return families, nil
}

// judge evaluates the gates and gives the comparisons their verdicts, if the profile has any.
func (f *judged) judge(tables tablesOf) error {
	if f.Looks[f.Profile] == nil {
		return nil
	}
	f.passed = map[string]verdict.Passed{}
	for _, g := range f.Gates {
		truth, err := newEvaluator(tables).Truth(g.Holds)
		if _, missing := errors.AsType[*lab.NoCell](err); err != nil && !missing {
			return fmt.Errorf("gate %q: %w", g.That, err)
		}
		if f.passed[g.That] = verdict.Unknown; err == nil {
			f.passed[g.That] = passedIf[truth]
		}
	}
	f.results = f.Judge(func(g lab.Gate) verdict.Passed { return f.passed[g.That] })
	return nil
}

// verdictsOf are a claim's words for a result.
var verdictsOf = map[verdict.Verdict]Verdict{
	verdict.Agrees: Agrees, verdict.Disagrees: Disagrees, verdict.NoDifference: NoDifference,
	verdict.Open: Undecided, verdict.CannotTell: CannotTell,
}

var (
	passedIf    = map[expr.Truth]verdict.Passed{expr.Yes: verdict.Yes, expr.No: verdict.No, expr.Undecided: verdict.Unknown}
	passedWords = map[verdict.Passed]string{verdict.Yes: "yes", verdict.No: "no", verdict.Unknown: "unknown"}
)

// compare gives a claim that names a primary its verdict, by the design alone.
func (v *Judgement) compare(e *evaluator) error {
	experiment, primary, _ := strings.Cut(v.Design, "/")
	f := e.families[experiment]
	if f == nil {
		v.Verdict, v.Why = NoRecord, "no usable records of "+experiment
		return nil
	}
	if _, err := f.Primary(primary); err != nil {
		return err
	}
	v.Records, v.Profile, v.Cost = []string{experiment}, f.Profile, f.cost
	if f.results == nil {
		v.Verdict, v.Why = JudgedAtFull, "runs at profile "+f.JudgedAt()+" decide it"
		if figure := f.Figure(primary); figure != "" {
			v.Shown = slices.Insert(v.Shown, 0, figure)
		}
		return nil
	}
	i := slices.IndexFunc(f.results, func(r verdict.Result) bool { return r.Name == primary })
	r := f.results[i]
	v.Verdict, v.Why = verdictsOf[r.Verdict], r.Why
	if v.Kind == Extension {
		switch r.Verdict {
		case verdict.Agrees:
			v.Verdict = Holds
		case verdict.Disagrees, verdict.NoDifference:
			v.Verdict = DoesNotHold
		}
	}
	if r.Verdict == verdict.Open && r.Seeds > 0 {
		v.Why += " (" + f.Unit(primary) + ")"
	}
	v.Compared = &Compared{
		Seeds: r.Seeds, Mean: r.Mean, SD: r.SD, Low: r.Low, High: r.High, Unit: f.Unit(primary), Margin: f.Comparisons[i].Margin,
		Level: r.Level, P: r.P, Detectable: r.Detectable, Exploratory: f.Exploratory, Unfinished: f.Unfinished(),
	}
	if c := f.Comparisons[i]; c.Test == verdict.Sign {
		v.Compared.signs = lab.Signs(c, r.Seeds)
	}
	if v.waits() && v.Compared.Unfinished != "" {
		v.Why = v.Compared.Unfinished + "; " + v.Why
	}
	for _, g := range f.Gates {
		if g.Concerns(primary) {
			v.Compared.Gates = append(v.Compared.Gates, Passed{g.That, passedWords[f.passed[g.That]]})
		}
	}
	if f.Registered == "none" {
		v.Why = strings.TrimPrefix(v.Why+"; exploratory", "; ")
	}
	v.Shown = slices.Insert(v.Shown, 0, v.Compared.String())
	return nil
}

// waits reports whether trainings to come decide.
func (v *Judgement) waits() bool {
	return v.Verdict == JudgedAtFull || v.Verdict == Undecided && v.Compared != nil && v.Compared.Unfinished != ""
}

// checkDesign refuses a claim on what a design judges that does not name it: a point estimate must
// not decide beside the design.
func (v *Judgement) checkDesign(e *evaluator) error {
	for id := range e.rests {
		if v.Basis == Measured && e.families[id] != nil {
			return fmt.Errorf("its check reads what the design of %s judges: want design: %[1]s/PRIMARY in place of check", id)
		}
	}
	return nil
}
