package measured

import (
	"fmt"
	"slices"

	"gpipebench/experiments/densify/accumulate"
	"gpipebench/experiments/densify/exchange"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

// Report compares bytes with the formulas, and times with the model.
func (x *measured) Report(log, reference *records.Log) (*lab.Report, error) {
	profile, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	of, model, err := x.results(log, profile)
	if err != nil {
		return nil, err
	}
	var before map[run][]Record
	if reference != nil {
		p, err := lab.ProfileOf(x.Spec.Profiles, reference.Key.Profile)
		if err == nil && p.Table == profile.Table {
			before, _, err = x.results(reference, p)
		}
		if err != nil {
			return nil, err
		}
	}
	bytes, wrong := x.bytes(of, profile)
	r := &lab.Report{Tables: []*lab.Table{x.times(of, before, model, profile, log, reference), bytes, x.rates(model, profile)}}
	if len(wrong) > 0 {
		r.Verdict = fmt.Errorf("%s: %s", x.ID(), joined(wrong))
	}
	r.Files, err = plot.Files(x.ID(), x.Title(), x.panels(r.Tables[0]))
	return r, err
}

// results are the records of all runs, and the model that the smaller tables give.
func (x *measured) results(log *records.Log, p profile) (map[run][]Record, *model, error) {
	of := map[run][]Record{}
	var smaller []calibrated
	for _, r := range x.runs(p) {
		all, err := x.read(log, p.Rounds, r)
		if err != nil {
			return nil, nil, err
		}
		of[r] = all
		if r.table != p.Table {
			smaller = append(smaller, calibrated{r, all})
		}
	}
	return of, calibrate(smaller), nil
}

// seconds are a run's, by round.
func seconds(all []Record) (s []float64) {
	for i := range all {
		s = append(s, all[i].slowest((*exchange.Outcome).Seconds))
	}
	return s
}

// only is a value for the paper's number of ranks, and nothing for others.
func (x *measured) only(ranks int, v lab.Value) lab.Value {
	if ranks != x.Spec.Paper.Ranks {
		return lab.Absent
	}
	return v
}

func (x *measured) times(of, before map[run][]Record, m *model, p profile, log, reference *records.Log) *lab.Table {
	t := &lab.Table{ID: x.ID(), Title: x.Title(), Caption: []string{
		fmt.Sprintf("A table of %d rows and %d columns in float32, %d and %d tokens a rank; each rank a process of this machine, with TCP between them. A round starts all runs in processes of their own; the time is that of the slowest rank from the first byte to the sum. Median of %d rounds; in brackets the 95%% interval of order statistics.",
			p.Table.Vocab, p.Table.Dim, p.Table.Source, p.Table.Target, p.Rounds),
		"Modelled: with the rates that smaller tables have on this machine, see below; more ranks than were measured share it as well, which hardly matters for the ratio. Least: the ratio of the least times over links of any rate. The paper's ranks have a node each.",
	}}
	t.Numbers("ranks", "gather", "95%, gather", "gather, modelled", "gather, measured / modelled", "reduce", "95%, reduce", "reduce, modelled", "reduce, measured / modelled",
		"gather / reduce", "95%, gather / reduce", "gather / reduce, modelled", "gather / reduce, least", "gather / reduce, paper")
	if reference != nil {
		t.Numbers("gather / reduce, " + lab.ReferenceName(log, reference))
	}
	link := timeline.Link{Bandwidth: 1}
	for _, n := range slices.Concat(x.Spec.Processes, x.Spec.Modelled) {
		row := []any{n}
		measured := map[accumulate.Way][]float64{}
		for _, way := range exchange.Ways() {
			all, ok := of[run{p.Table, n, way}]
			measured[way] = seconds(all)
			modelled := lab.Absent
			if n > 1 {
				modelled = lab.Seconds(m.seconds(p.Table, n, way))
			}
			switch {
			case !ok:
				row = append(row, lab.Absent, lab.Absent, modelled, lab.Absent)
			case n == 1:
				row = append(row, lab.Median(measured[way], lab.Seconds), modelled, lab.Absent)
			default:
				row = append(row, lab.Median(measured[way], lab.Seconds), modelled, lab.Fixed(stats.Median(measured[way])/m.seconds(p.Table, n, way), 2))
			}
		}
		if _, ok := of[run{p.Table, n, accumulate.Gather}]; ok {
			row = append(row, lab.Ratio(stats.RatioOf(measured[accumulate.Gather], measured[accumulate.Reduce]), false))
		} else {
			row = append(row, lab.Absent, lab.Absent)
		}
		if n > 1 {
			row = append(row, lab.Fixed(m.seconds(p.Table, n, accumulate.Gather)/m.seconds(p.Table, n, accumulate.Reduce), 1),
				lab.Fixed(p.Table.GatherSeconds(n, link)/accumulate.ReduceSeconds(n, p.Table.DenseBytes(), link), 1))
		} else {
			row = append(row, lab.Absent, lab.Absent)
		}
		row = append(row, x.only(n, lab.Fixed(x.Spec.Paper.Gather.Value/x.Spec.Paper.Reduce.Value, 1)))
		if reference != nil {
			row = append(row, referred(before, p.Table, n))
		}
		t.Add(row...)
	}
	t.Notes = lab.FewRoundsNote(p.Rounds)
	if reference != nil {
		t.Notes = append(t.Notes, lab.ReferenceNote(reference))
	}
	return t
}

// referred is the reference's ratio.
func referred(of map[run][]Record, table accumulate.Table, n int) lab.Value {
	gather, reduce := of[run{table, n, accumulate.Gather}], of[run{table, n, accumulate.Reduce}]
	if len(gather) == 0 || len(reduce) == 0 {
		return lab.Absent
	}
	return lab.Fixed(stats.RatioOf(seconds(gather), seconds(reduce)).Median, 2)
}

// bytes are those of all runs of the table that is compared. wrong says where they, the
// bits or the resident memory are other than they must be.
func (x *measured) bytes(of map[run][]Record, p profile) (t *lab.Table, wrong []string) {
	t = &lab.Table{ID: x.ID() + "-bytes", Title: "What the processes held and sent, in bytes", Caption: []string{
		"Held: the accumulated gradient as every rank has it before it is added up, with the indices of a gather. Travelled: what all ranks received. Beside both are the formulas. Resident: the most memory of a process, and what of it was there before the gradients: the program and its connections. To the byte and same bits: in every process and every round; all of one number of ranks have one sum.",
	}}
	t.Texts("way")
	t.Numbers("ranks", "held", "held, formula", "travelled", "travelled, formula", "resident", "program", "resident / formula", "resident less program / formula")
	t.Texts("to the byte", "same bits", "SHA-256")
	for _, way := range exchange.Ways() {
		for _, n := range x.Spec.Processes {
			r := run{p.Table, n, way}
			all := of[r]
			held, travels := r.formula()
			exact, same := true, true
			first := of[run{p.Table, n, accumulate.Gather}][0].Ranks[0].SHA256
			var resident, program int64
			own := 0.0
			for _, one := range all {
				received := int64(0)
				for _, o := range one.Ranks {
					exact = exact && o.Held+o.Indices == held
					same = same && o.SHA256 == first
					resident, program = max(resident, o.Resident), max(program, o.Program)
					own = max(own, float64(o.Resident-o.Program)/float64(held))
					received += o.Received
				}
				exact = exact && received == travels
			}
			name := fmt.Sprintf("%v, %d processes", way, n)
			if !exact {
				wrong = append(wrong, name+": other bytes than by the formula")
			}
			if !same {
				wrong = append(wrong, name+": other bits than gathered")
			}
			if way == accumulate.Gather && p.Resident > 0 && own > p.Resident {
				wrong = append(wrong, fmt.Sprintf("%s: %.2f times the formula's bytes resident, want at most %v", name, own, p.Resident))
			}
			whole := func(n int64) lab.Value { return lab.Whole(n, fmt.Sprint(n)) }
			last := all[0].Ranks[0]
			t.Add(way.String(), n, whole(last.Held+last.Indices), whole(held), whole(received(all[0])), whole(travels), lab.Bytes(resident), lab.Bytes(program),
				lab.Fixed(float64(resident)/float64(held), 3), lab.Fixed(own, 3),
				lab.YesOrNo(exact), lab.YesOrNo(same), last.SHA256[:16])
		}
	}
	if p.Resident > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("A process that gathers may have %v times the formula's bytes resident, besides the program.", p.Resident))
	}
	return t, wrong
}

// received is what all ranks received.
func received(r Record) (n int64) {
	for _, o := range r.Ranks {
		n += o.Received
	}
	return n
}

// formula is what each rank of a run must hold, and what all must receive.
func (r run) formula() (held, travels int64) {
	if r.way == accumulate.Gather {
		return r.table.GatheredBytes(r.processes) + r.table.IndexBytes(r.processes), r.table.GatherTravels(r.processes)
	}
	return r.table.DenseBytes(), r.table.ReduceTravels(r.processes)
}

func (x *measured) rates(m *model, p profile) *lab.Table {
	t := &lab.Table{ID: x.ID() + "-rates", Title: "The rates of smaller tables, of which the model is made", Caption: []string{
		fmt.Sprintf("Bytes a second of each busy core: the median over %d smaller tables, %d numbers of processes and all rounds, with the least and the greatest. Each process keeps one of %d cores busy. Nothing of the table that is compared is in them.", len(p.Calibration), len(x.Spec.Processes)-1, m.cores),
	}}
	t.Texts("way", "part", "bytes")
	t.Numbers("GB/s", "least", "greatest", "n")
	for i, of := range parts {
		all := m.all[i]
		t.Add(of.way.String(), of.name, of.what, lab.Fixed(m.rates[i]/1e9, 2), lab.Fixed(slices.Min(all)/1e9, 2), lab.Fixed(slices.Max(all)/1e9, 2), len(all))
	}
	return t
}

// panels draw the times by ranks.
func (x *measured) panels(t *lab.Table) []plot.Axes {
	p := &plot.LinePanel{Title: "accumulation of the table", X: "ranks", Y: "seconds", Logarithmic: true}
	for _, row := range t.Rows {
		p.Names = append(p.Names, row[0].Text)
	}
	for _, c := range []struct{ name, column string }{
		{"measured, gather", "gather"}, {"measured, reduce", "reduce"}, {"modelled, gather", "gather, modelled"}, {"modelled, reduce", "reduce, modelled"},
	} {
		line := plot.Series{Name: c.name, Dashed: c.column != "gather" && c.column != "reduce"}
		var points []plot.Point
		for i, row := range t.Rows {
			if v := row[t.Column(c.column)]; len(v.Numbers) > 0 {
				points = append(points, plot.Point{X: float64(i), Y: v.Numbers[0]})
			}
		}
		line.Lines = [][]plot.Point{points}
		p.Series = append(p.Series, line)
	}
	return []plot.Axes{p}
}
