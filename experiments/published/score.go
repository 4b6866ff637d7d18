package published

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"gpipebench/internal/failure"
	"gpipebench/internal/printable"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab"
)

// Scored is a row beside what the model says of it: a line of `scoreboard --json`.
type Scored struct {
	Table     string   `json:"table"`
	ID        string   `json:"id"`
	What      string   `json:"what"`
	Measured  *float64 `json:"measured"`  // seconds or bytes; null: it did not fit
	Predicted *float64 `json:"predicted"` // null: it is not modelled
	Modelled  bool     `json:"modelled"`
	Reason    string   `json:"reason,omitempty"` // why it is not

	row   *Row
	can   bool    // be modelled by the rule
	share float64 // what a constant share of the peak predicts; 0: nothing
}

// off is the relative error of a prediction.
func (s Scored) off(predicted float64) float64 { return predicted / *s.Measured - 1 }

// Errors are relative errors of predicted rows; what could be predicted and is not counts as an error of 1
// in MAE.
type Errors struct {
	MAE    float64 `json:"mae"`    // mean absolute error
	Signed float64 `json:"signed"` // mean error
	Spread float64 `json:"sd"`     // standard deviation of the errors
}

// errorsOf summarises errors of n rows.
func errorsOf(off []float64, n int) (e Errors) {
	sum := float64(n - len(off))
	for _, x := range off {
		sum += math.Abs(x)
	}
	e.MAE, e.Signed = sum/float64(n), stats.Mean(off)
	if len(off) > 0 {
		e.Spread = stat.PopStdDev(off, nil)
	}
	return e
}

// Summary is how well rows of one kind of a table are predicted.
type Summary struct {
	Table     string `json:"table"`
	What      string `json:"what,omitempty"` // none: all of the table
	Rows      int    `json:"rows"`
	Can       int    `json:"can"` // be modelled by the rule
	Predicted int    `json:"predicted"`
	Errors
	Worst      string  `json:"worst,omitempty"` // the row with the largest error
	WorstError float64 `json:"worst_error"`
	Rank       float64 `json:"rank_correlation"` // Spearman's, of values; NaN of fewer than 3 rows

	// Of seconds alone. A group is rows of one network, number of devices and mini-batch; the regret is
	// how much longer a sequence takes in the row that the model would choose than in the fastest.
	Groups      int     `json:"groups,omitempty"`
	Regret      float64 `json:"regret,omitempty"` // mean over groups
	WorstRegret float64 `json:"worst_regret,omitempty"`

	Share    *Errors  `json:"constant_share,omitempty"` // by ConstantShare of the peak in place of the model
	Factored *Factor  `json:"one_factor,omitempty"`     // the model with one factor for the device
	Reasons  []Reason `json:"reasons,omitempty"`        // of the rows that cannot be modelled
}

// Factor is the median of measured over predicted seconds in one table, and the errors of another's seconds
// when its predictions are multiplied by it.
type Factor struct {
	Errors
	Factor float64 `json:"factor"`
	From   string  `json:"from"`
	// Same says that both tables were measured on one machine.
	Same bool `json:"same_machine"`
}

// Reason is why some rows cannot be modelled.
type Reason struct {
	Why  string `json:"why"`
	Rows int    `json:"rows"`
}

// ConstantShare is the share of the peak at which the model FLOPs of a step are done in the rule of
// thumb that the model is compared with.
const ConstantShare = 0.40

// modelFLOPs are three times a forward's, logits included, of a mini-batch: attention in full, nothing
// recomputed.
func (r Row) modelFLOPs() float64 {
	h, kv, matrices := float64(r.Hidden), float64(r.KVHeads)/float64(r.Heads), 2.0
	if r.MLP == "swiglu" || r.MLP == "geglu" {
		matrices = 3
	}
	token := float64(r.Layers)*(2*h*h*(2+2*kv)+2*matrices*h*float64(r.FF)+4*float64(r.Seq)*h) + 2*h*float64(r.Vocab)
	return 3 * token * float64(r.Seq) * float64(r.Batch)
}

// shared is what the rule of thumb predicts of a row's step, in seconds.
func (t *Tables) shared(table *Table, row *Row) float64 {
	r := table.assuming(*row)
	return r.modelFLOPs() / (ConstantShare * 1e12 * t.device(r.Device).peak(r.Precision) * float64(r.Devices))
}

// scored is every row of tables, in order, with what predictions has of those that can be modelled, by ID.
func (t *Tables) scored(predictions map[string]outcome) (all []Scored) {
	for i := range t.Tables {
		table := &t.Tables[i]
		for n := range table.Rows {
			row := &table.Rows[n]
			s := Scored{Table: table.ID, ID: row.ID, What: row.What, Measured: row.Value, Reason: t.reason(table, row), row: row}
			s.can = s.Reason == ""
			p, simulated := predictions[row.ID]
			switch {
			case !s.can || !simulated:
			case p.failed != nil:
				s.Reason = "it cannot be simulated: " + p.failed.Error()
			default:
				of := p.of(row.What)
				s.Predicted, s.Modelled = &of, true
			}
			if s.can && row.What == stepSeconds {
				s.share = t.shared(table, row)
			}
			all = append(all, s)
		}
	}
	return all
}

// summarise summarises rows of a table. Factors has what the seconds of its device are multiplied by.
func summarise(table, what string, rows []Scored, factor *Factor) Summary {
	s := Summary{Table: table, What: what, Rows: len(rows), Rank: math.NaN()}
	var off, share, factored, measured, predicted []float64
	var steps []Scored
	for _, r := range rows {
		if r.Reason != "" {
			i := slices.IndexFunc(s.Reasons, func(of Reason) bool { return of.Why == r.Reason })
			if i < 0 {
				i, s.Reasons = len(s.Reasons), append(s.Reasons, Reason{Why: r.Reason})
			}
			s.Reasons[i].Rows++
		}
		if !r.can {
			continue
		}
		s.Can++
		if r.share > 0 {
			share = append(share, r.off(r.share))
		}
		if !r.Modelled {
			continue
		}
		e := r.off(*r.Predicted)
		off, measured, predicted = append(off, e), append(measured, *r.Measured), append(predicted, *r.Predicted)
		if s.Worst == "" || math.Abs(e) > math.Abs(s.WorstError) {
			s.Worst, s.WorstError = r.ID, e
		}
		if r.What == stepSeconds {
			steps = append(steps, r)
			if factor != nil {
				factored = append(factored, r.off(*r.Predicted*factor.Factor))
			}
		}
	}
	slices.SortStableFunc(s.Reasons, func(a, b Reason) int { return cmp.Compare(b.Rows, a.Rows) })
	s.Predicted = len(off)
	if s.Can == 0 {
		return s
	}
	s.Errors = errorsOf(off, s.Can)
	if len(off) > 2 {
		s.Rank = stats.RankCorrelation(measured, predicted)
	}
	if len(share) > 0 {
		e := errorsOf(share, len(share))
		s.Share = &e
	}
	if len(factored) > 0 {
		f := *factor
		f.Errors = errorsOf(factored, len(factored))
		s.Factored = &f
	}
	regrets := regretsOf(steps)
	if s.Groups = len(regrets); s.Groups > 0 {
		s.Regret, s.WorstRegret = stats.Mean(regrets), slices.Max(regrets)
	}
	return s
}

// network is what rows of one group have in common.
type network struct {
	device                                                      string
	devices, layers, hidden, ff, heads, kv, vocab, seq, rounded int
}

// regretsOf are the regrets of groups of two rows or more. Mini-batches that differ by less than a
// twentieth, as they do where each is to be divided by another number of replicas, are one.
func regretsOf(steps []Scored) (regrets []float64) {
	type way struct{ measured, predicted float64 } // of a sequence
	groups := map[network][]way{}
	var order []network
	for _, s := range steps {
		r := s.row
		of := network{r.Device, r.Devices, r.Layers, r.Hidden, r.FF, r.Heads, r.KVHeads, r.Vocab, r.Seq, r.Batch}
		for _, known := range order {
			near := known
			near.rounded = of.rounded
			if near == of && math.Abs(float64(known.rounded-of.rounded)) < float64(known.rounded)/20 {
				of = known
				break
			}
		}
		if groups[of] == nil {
			order = append(order, of)
		}
		batch := float64(r.Batch)
		groups[of] = append(groups[of], way{*s.Measured / batch, *s.Predicted / batch})
	}
	for _, of := range order {
		ways := groups[of]
		if len(ways) < 2 {
			continue
		}
		chosen := slices.MinFunc(ways, func(a, b way) int { return cmp.Compare(a.predicted, b.predicted) })
		best := slices.MinFunc(ways, func(a, b way) int { return cmp.Compare(a.measured, b.measured) })
		regrets = append(regrets, chosen.measured/best.measured-1)
	}
	return regrets
}

// Overall is the mean of the tables' errors.
type Overall struct {
	Tables  int     `json:"tables"`
	MAE     float64 `json:"mae"`
	Seconds float64 `json:"step_s"`
	Bytes   float64 `json:"peak_bytes"`
	Apart   float64 `json:"apart"` // of the table Apart, which is in none of these; NaN: there is none
}

// Apart is the table that no mean over tables has: 1,440 steps of small networks on one node would be
// most of all rows.
const Apart = "vtrain-single"

// overall is the mean over tables of summaries of all rows and of those of each kind.
func overall(summaries []Summary) (o Overall) {
	of := map[string][]float64{}
	o.Apart = math.NaN()
	for _, s := range summaries {
		switch {
		case s.Can == 0:
		case s.Table != Apart:
			of[s.What] = append(of[s.What], s.MAE)
		case s.What == "":
			o.Apart = s.MAE
		}
	}
	mean := func(what string) float64 {
		if len(of[what]) == 0 {
			return math.NaN()
		}
		return stats.Mean(of[what])
	}
	o.Tables, o.MAE, o.Seconds, o.Bytes = len(of[""]), mean(""), mean(stepSeconds), mean(peakBytes)
	return o
}

// Scoreboard is all rows of a file, their summaries, and the mean of these.
type Scoreboard struct {
	Rows    []Scored  `json:"rows"`
	Tables  []Summary `json:"tables"`
	Overall Overall   `json:"overall"`

	newest []string // the tables of devices that are Hopper or newer
}

// foreign are the committed tables from which the factor of a device may come, in order: the first that is
// not the judged one. The first two were measured on one machine.
var foreign = map[string][]string{
	"a100-80g": {"megatron-sc21-table1", "korthikanti-table5"},
}

// selene are tables that were measured on the machine of that name.
var selene = []string{"megatron-sc21-table1", "megatron-sc21-extra", "korthikanti-table5", "korthikanti-table4", "mt-nlg-530b"}

// factorFor is the factor of a judged table's device from a committed table, whose rows are given with
// their predictions; nil: no table has one.
func factorFor(judged *Table, committed []Scored) *Factor {
	for _, from := range foreign[judged.Device] {
		if from == judged.ID {
			continue
		}
		var ratios []float64
		for _, r := range committed {
			if r.Table == from && r.What == stepSeconds && r.Modelled {
				ratios = append(ratios, *r.Measured / *r.Predicted)
			}
		}
		if len(ratios) > 0 {
			return &Factor{Factor: stats.Median(ratios), From: from, Same: slices.Contains(selene, judged.ID) && slices.Contains(selene, from)}
		}
	}
	return nil
}

// score makes the scoreboard of tables from predictions by ID, and of the committed tables from theirs.
func (t *Tables) score(predictions, committed map[string]outcome) *Scoreboard {
	b := &Scoreboard{Rows: t.scored(predictions)}
	known := Committed().scored(committed)
	for i := range t.Tables {
		table := &t.Tables[i]
		if d := t.device(table.Device); d != nil && d.peak("bf16") > hopper {
			b.newest = append(b.newest, table.ID)
		}
		factor := factorFor(table, known)
		of := map[string][]Scored{}
		for _, r := range b.Rows {
			if r.Table == table.ID {
				of[""] = append(of[""], r)
				of[r.What] = append(of[r.What], r)
			}
		}
		b.Tables = append(b.Tables, summarise(table.ID, "", of[""], factor))
		for _, what := range []string{stepSeconds, peakBytes} {
			if len(of[what]) > 0 {
				b.Tables = append(b.Tables, summarise(table.ID, what, of[what], factor))
			}
		}
	}
	b.Overall = overall(b.Tables)
	return b
}

// training is what a simulation of rows of one training depends on: all that they state or their table
// assumes.
type training struct {
	table *Table
	rows  []*Row // the first names it
}

// trainings lists what the rows that can be modelled measure, in order.
func (t *Tables) trainings() (all []*training) {
	known := map[string]*training{}
	for i := range t.Tables {
		table := &t.Tables[i]
		for n := range table.Rows {
			row := &table.Rows[n]
			if t.reason(table, row) != "" {
				continue
			}
			of := table.ID + table.assuming(*row).setting()
			if known[of] == nil {
				known[of] = &training{table: table}
				all = append(all, known[of])
			}
			known[of].rows = append(known[of].rows, row)
		}
	}
	return all
}

// setting is text that is the same for rows of one training.
func (r Row) setting() string {
	tied, sequence, zero := *r.Tied, *r.Sequence, *r.ZeRO
	r.ID, r.Line, r.Source, r.Printed, r.Derived, r.What, r.Value = "", "", "", "", "", "", nil
	r.Tied, r.Sequence, r.ZeRO = nil, nil, nil
	return fmt.Sprint(r, tied, sequence, zero)
}

// outcome is what was predicted of a training, or why it cannot be simulated.
type outcome struct {
	Predicted
	failed error
}

// simulate predicts trainings.
func (t *Tables) simulate(ctx context.Context, all []*training, p progress.Progress) (map[string]outcome, error) {
	p.Begin("scoreboard: trainings", len(all))
	defer p.End()
	made := make([]outcome, len(all))
	err := lab.Parallel(ctx, p, len(all), func(ctx context.Context, i int) (string, error) {
		made[i].Predicted, made[i].failed = t.predict(ctx, all[i].table, all[i].rows[0], nil)
		return all[i].rows[0].ID, nil
	})
	outcomes := map[string]outcome{}
	for i, of := range all {
		for _, row := range of.rows {
			outcomes[row.ID] = made[i]
		}
	}
	return outcomes, err
}

// Scoring scores tables.
type Scoring struct {
	File string   // of tables; "": the committed ones
	Only []string // tables by ID; none: all
}

// Run predicts every row that can be modelled. A row whose training cannot be simulated is no error: its
// reason says why.
func (s Scoring) Run(ctx context.Context, p progress.Progress) (*Scoreboard, error) {
	t, err := Committed(), error(nil)
	if s.File != "" {
		if t, err = Read(s.File); err != nil {
			return nil, err
		}
	}
	if t, err = t.only(s.Only); err != nil {
		return nil, failure.Usage(err)
	}
	return t.scoreboard(ctx, p)
}

// only is a file with some of its tables.
func (t *Tables) only(ids []string) (*Tables, error) {
	if len(ids) == 0 {
		return t, nil
	}
	some := *t
	some.Tables = nil
	var known []string
	for _, table := range t.Tables {
		known = append(known, table.ID)
		if slices.Contains(ids, table.ID) {
			some.Tables = append(some.Tables, table)
		}
	}
	for _, id := range ids {
		if !slices.Contains(known, id) {
			return nil, fmt.Errorf("unknown table %s: want %s", printable.Quoted(id), strings.Join(known, ", "))
		}
	}
	return &some, nil
}

// scoreboard predicts every row of tables that can be modelled, and scores them. Factors for devices are
// from the committed tables.
func (t *Tables) scoreboard(ctx context.Context, p progress.Progress) (*Scoreboard, error) {
	predictions, err := t.simulate(ctx, t.trainings(), p)
	if err != nil {
		return nil, err
	}
	known := Committed()
	var needed []*training
	for _, of := range known.trainings() {
		if slices.ContainsFunc(t.Tables, func(judged Table) bool { return slices.Contains(foreign[judged.Device], of.table.ID) }) {
			needed = append(needed, of)
		}
	}
	committed := predictions
	if t != known && len(needed) > 0 {
		if committed, err = known.simulate(ctx, needed, p); err != nil {
			return nil, err
		}
	}
	return t.score(predictions, committed), nil
}
