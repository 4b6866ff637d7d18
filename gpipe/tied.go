package gpipe

import (
	"context"
	"iter"
	"time"
	"unsafe"

	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/kernel"
	"gpipebench/nn/program"
)

// findRows finds the places of gathered rows in the arena, from a slot of Grads on. The
// device's copies of a table have the same.
func (d *device) findRows(slot int) {
	for i := range d.net.Tables {
		t := &d.net.Tables[i]
		if !t.On(d.k) {
			continue
		}
		ids := d.mem.slot(0, program.Grads, slot+1)
		for _, j := range d.index[t.Param] {
			w := &d.weights[j]
			w.rows = d.mem.slot(0, program.Grads, slot)
			w.ids = unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(ids))), len(ids))
		}
		slot += 2
	}
}

// gathered reports whether the weight's gradient goes as rows.
func (w *weight) gathered() bool { return w.ids != nil }

// parts are the memory of some rows: their values, then their indices, as a transport
// carries them.
func (w *weight) parts(t *plan.TableRows, rows plan.Span) [][]float32 {
	ids := w.ids[rows.From:rows.To]
	return [][]float32{
		w.rows[rows.From*t.Dim : rows.To*t.Dim],
		unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(ids))), len(ids)),
	}
}

// gatheredTables are the gathered gradients of the device's weights: of copies, the first.
func (r *stageRun) gatheredTables(yield func(w *weight, t *plan.TableRows) bool) {
	for i := range r.tables {
		if t := &r.tables[i]; t.On(r.k) && !yield(&r.dev.weights[r.dev.index[t.Param][0]], t) {
			return
		}
	}
}

// touchRows records that rows up to the row end are used.
func (r *stageRun) touchRows(t *plan.TableRows, end int) {
	n := r.trainer.net
	slot := 1 + n.Sums() + n.Tallies()
	for i := range n.Tables {
		if n.Tables[i].Param == t.Param {
			break
		}
		if n.Tables[i].On(r.k) {
			slot += 2
		}
	}
	r.dev.mem.touch(0, program.Grads, slot, end*t.Dim)
	r.dev.mem.touch(0, program.Grads, slot+1, end)
}

// keepRows copies the rows of a micro-batch's gradient to their place, if they are gathered.
func (r *chunkRun) keepRows(m int, g program.RowGradient) (kept bool) {
	uses := r.stage(m).Uses
	for w, t := range r.gatheredTables {
		for i, u := range t.Uses {
			if u.Stage != r.piece || !u.Sparse || uses[u.Index].Operand != g.Use {
				continue
			}
			group, begin := r.GroupOf(m), 0
			if group > 0 {
				begin = r.Ends[group-1]
			}
			at := t.OwnGroups(r.trainer.net, r.at.Replica)[group][i].From + r.Portion.Rows(u, begin, m)
			parts := r.dev.pool.Threads()
			r.dev.pool.Do(func(part int) {
				from, to := len(g.IDs)*part/parts, len(g.IDs)*(part+1)/parts
				g.CopyTo(w.rows[(at+from)*t.Dim:(at+to)*t.Dim], from, to)
				copy(w.ids[at+from:at+to], g.IDs[from:to])
			})
			r.touchRows(t, at+len(g.IDs))
			kept = true
		}
	}
	return kept
}

// keepDense turns the dense gradients of the group that is complete into rows: all rows of
// the table.
func (r *stageRun) keepDense() {
	for w, t := range r.gatheredTables {
		accumulators := r.accumulators(t.Param)
		for i, u := range t.Uses {
			if t.Devices[i] != r.k {
				continue
			}
			dense := accumulators[0]
			accumulators = accumulators[1:]
			if at := t.OwnGroups(r.trainer.net, r.at.Replica)[r.group][i]; !u.Sparse {
				parts := r.dev.pool.Threads()
				r.dev.pool.Do(func(part int) {
					from, to := t.Vocab*part/parts, t.Vocab*(part+1)/parts
					copy(w.rows[(at.From+from)*t.Dim:], dense[from*t.Dim:to*t.Dim])
					for row := from; row < to; row++ {
						w.ids[at.From+row] = int32(row)
					}
				})
				r.touchRows(t, at.To)
			}
		}
	}
}

// gatherRows makes the first accumulator of every table whose gradient is gathered the sum
// of all rows of all replicas.
func (r *stageRun) gatherRows(ctx context.Context) error {
	start := time.Now()
	if err := r.timedWork(ctx, timeline.Rows, r.keepDense); err != nil {
		return err
	}
	r.recordTables(timeline.PackRows, start)
	for w, t := range r.gatheredTables {
		if err := r.exchangeRows(ctx, w, t); err != nil {
			return err
		}
	}
	for w, t := range r.gatheredTables {
		if r.trainer.net.Replicas == 1 {
			break
		}
		if err := reduction.AllGather(ctx, rowPeers{peers{stageRun: r, what: transport.GatheredRows}, t}, func(rank int) iter.Seq2[int, [][]float32] {
			return func(yield func(int, [][]float32) bool) {
				for m := range t.Messages(t.Replicas[rank]) {
					if !yield(m.From, w.parts(t, m)) {
						return
					}
				}
			}
		}); err != nil {
			return err
		}
	}
	adding := time.Now()
	if err := r.timedWork(ctx, timeline.Rows, func() {
		for w, t := range r.gatheredTables {
			r.addRows(w, t)
			for _, j := range r.dev.index[t.Param][1:] {
				copy(r.dev.weights[j].grads[0], w.grads[0])
			}
		}
	}); err != nil {
		return err
	}
	r.recordTables(timeline.SumRows, adding)
	r.record(r.at, timeline.Rows, -1, start, time.Now())
	return nil
}

// recordTables records what was done to all tables at once since start.
func (r *stageRun) recordTables(kind timeline.ActivityKind, start time.Time) {
	for _, t := range r.gatheredTables {
		r.recorded.add([]int{r.dev.index[t.Param][0]}, kind, -1, start, time.Now(), t.Bytes(0, t.Rows))
	}
}

// exchangeRows sends the rows of this device's uses, of all groups of the replica, to the
// other devices that have the table, and receives theirs.
func (r *stageRun) exchangeRows(ctx context.Context, w *weight, t *plan.TableRows) error {
	groups := t.OwnGroups(r.trainer.net, r.at.Replica)
	parts := func(use int) (all [][]float32) {
		for _, group := range groups {
			all = append(all, w.parts(t, group[use])...)
		}
		return all
	}
	return r.swapUses(ctx, t.Param, parts, func(use int, receive func(into [][]float32) error) error {
		if t.Devices[use] == r.k {
			return nil
		}
		err := receive(parts(use))
		for _, group := range groups {
			r.touchRows(t, group[use].To)
		}
		return err
	})
}

// rowPeers are peers that gather the rows of a table.
type rowPeers struct {
	peers
	table *plan.TableRows
}

func (p rowPeers) Receive(ctx context.Context, from, row int, parts [][]float32) error {
	start := time.Now()
	began, err := p.takeIn(ctx, p.route(from, p.Rank(), row), GatheredRows, parts)
	if err == nil {
		p.recorded.message([]int{p.dev.index[p.table.Param][0]}, from, start, began, bytesOf(parts))
		p.times.Rows += time.Since(began).Seconds()
		p.touchRows(p.table, row+len(parts[1]))
	}
	return err
}

// addRows adds up the rows of all groups in the weight's first accumulator. Each thread has
// columns of its own, in which it does everything.
func (r *stageRun) addRows(w *weight, t *plan.TableRows) {
	parts := r.dev.pool.Threads()
	floats := r.trainer.net.RowFloats(r.k)
	other := r.dev.mem.slot(0, program.Workspace, 0)[:floats]
	r.dev.mem.touch(0, program.Workspace, 0, floats)
	r.dev.pool.Do(func(part int) {
		c := columns{w: w, t: t, sum: w.grads[0], other: other, from: t.Dim * part / parts, to: t.Dim * (part + 1) / parts}
		for g := range t.Groups {
			c.group(g)
			if len(t.Groups) > 1 {
				copyRows(c.place(g), c.sum, t.Dim, c.from, c.to)
			}
		}
		if len(t.Groups) > 1 {
			c.tree(0, len(t.Groups))
			copyRows(c.sum, c.place(0), t.Dim, c.from, c.to)
		}
	})
}

// columns are some columns of a table's gradient, in which rows are added up.
type columns struct {
	w          *weight
	t          *plan.TableRows
	sum, other []float32 // tables
	from, to   int
}

// group makes sum the sum of a group: its uses in layer order.
func (c *columns) group(g int) {
	for i, u := range c.t.Uses {
		rows := c.t.Groups[g][i]
		values, ids := c.w.rows[rows.From*c.t.Dim:rows.To*c.t.Dim], c.w.ids[rows.From:rows.To]
		into := c.sum
		if i > 0 && u.Sparse {
			into = c.other
		}
		if i == 0 || u.Sparse {
			c.zero(into)
		}
		if u.Sparse {
			program.AddRows(into, values, ids, c.t.Dim, c.from, c.to, u.Scale)
			if i > 0 {
				addRows(c.sum, c.other, c.t.Dim, c.from, c.to)
			}
			continue
		}
		for row, id := range ids {
			from, to := int(id)*c.t.Dim+c.from, int(id)*c.t.Dim+c.to
			value := values[row*c.t.Dim+c.from : row*c.t.Dim+c.to]
			if i == 0 {
				copy(c.sum[from:to], value)
			} else {
				kernel.Add(c.sum[from:to], c.sum[from:to], value)
			}
		}
	}
}

// place is where a group's sum is kept: over its last dense gradient, which is in the sum.
func (c *columns) place(g int) []float32 {
	for i := len(c.t.Uses) - 1; ; i-- {
		if !c.t.Uses[i].Sparse {
			rows := c.t.Groups[g][i]
			return c.w.rows[rows.From*c.t.Dim : rows.To*c.t.Dim]
		}
	}
}

// tree adds up the sums of groups lo to hi-1 in the place of the first, as reduction.Sum.
func (c *columns) tree(lo, hi int) {
	if hi-lo == 1 {
		return
	}
	middle := lo + reduction.Split(hi-lo)
	c.tree(lo, middle)
	c.tree(middle, hi)
	addRows(c.place(lo), c.place(middle), c.t.Dim, c.from, c.to)
}

func (c *columns) zero(table []float32) {
	for at := 0; at < len(table); at += c.t.Dim {
		kernel.Zero(table[at+c.from : at+c.to])
	}
}

// addRows adds the columns from from to to-1 of a table to those of another.
func addRows(to, other []float32, dim, first, end int) {
	for at := 0; at < len(to); at += dim {
		kernel.Add(to[at+first:at+end], to[at+first:at+end], other[at+first:at+end])
	}
}

// copyRows copies these columns.
func copyRows(to, from []float32, dim, first, end int) {
	for at := 0; at < len(to); at += dim {
		copy(to[at+first:at+end], from[at+first:at+end])
	}
}
