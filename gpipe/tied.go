package gpipe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unsafe"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/kernel"
	"gpipebench/nn"
	"gpipebench/nn/program"
)

// The gradient of a table that embeddings share with a softmax, as TensorFlow accumulates
// it (Cavdar et al. 2019, Algorithm 1): since one of its uses has rows, all are turned into
// rows, which are gathered over replicas and only then added up.
//
// Each group has, in layer order, a row for each token of an embedding, and all rows of
// the table for a dense use. Nothing is added up before all rows of a mini-batch are there.
// Then every replica adds them as the arithmetic contract says: a use's rows in one chain
// from zero, in the order of examples; the uses of a group in layer order; the groups by
// the tree. So gathered gradients have the bits of reduced ones. Rows are those of the
// backward function before they are scaled, since the chain scales and adds with one
// rounding.

// TableGradients is a way to add up the gradients of tables that embeddings share with
// layers whose gradients are dense.
type TableGradients uint8

const (
	// ReduceTied adds them up as any other gradient: the paper's Algorithm 2.
	ReduceTied TableGradients = iota
	// GatherTied gathers rows of all replicas, with the indices of the rows, and adds them
	// up on each: Algorithm 1, with Horovod's two all-gathers.
	GatherTied
)

var tiedGradients = [...]string{"reduce", "gather"}

func (g TableGradients) String() string {
	if int(g) < len(tiedGradients) {
		return tiedGradients[g]
	}
	return fmt.Sprintf("TableGradients(%d)", uint8(g))
}

// ParseTableGradients reads what String writes.
func ParseTableGradients(s string) (TableGradients, error) {
	if i := slices.Index(tiedGradients[:], s); i >= 0 {
		return TableGradients(i), nil
	}
	return 0, fmt.Errorf("unknown way of tied gradients %q: want %s", s, strings.Join(tiedGradients[:], " or "))
}

var errNoTiedTable = errors.New("gathered gradients of tied tables: no embedding's table is that of another layer: want a network with a tied softmax, or reduced gradients")

// shares reports whether two layers have a parameter in common. Whether it is a table with
// rows and dense gradients, the compiled network tells.
func (p Pipeline) shares() bool {
	owner := map[*nn.Param]int{}
	for i, l := range p.Layers {
		for _, q := range l.Params() {
			if other, ok := owner[q]; ok && other != i {
				return true
			}
			owner[q] = i
		}
	}
	return false
}

// span are rows from from to to-1.
type span struct{ from, to int }

// tableRows is where the rows of a mini-batch's gradient of a table lie: group by group, in
// each use by use.
type tableRows struct {
	param      int // index into network.params
	vocab, dim int // the table's shape
	uses       []use
	devices    []int    // of each use
	groups     [][]span // by group of the mini-batch and use
	replicas   []span   // of each replica: those of its groups, which are consecutive
	rows       int      // of all groups
}

// on reports whether a device has the table.
func (t *tableRows) on(device int) bool { return slices.Contains(t.devices, device) }

// bytes is the size of some rows and their indices.
func (t *tableRows) bytes(from, to int) int64 { return int64(to-from) * int64(t.dim+1) * floatBytes }

// gatherTied chooses the parameters whose gradients are gathered: those with rows and
// dense gradients among their uses.
func (n *network) gatherTied() error {
	n.reduced = n.trained
	if n.TiedGradients != GatherTied || !n.trains() {
		return nil
	}
	n.reduced = make([][]int, len(n.trained))
	for k := range n.trained {
		n.reduced[k] = slices.Clone(n.trained[k])
	}
	sparse := func(u use) bool { return u.sparse }
	any := false
	for i := range n.params {
		p := &n.params[i]
		p.gathered = slices.ContainsFunc(p.uses, sparse) && slices.ContainsFunc(p.uses, func(u use) bool { return !u.sparse })
		any = any || p.gathered
		if !p.gathered {
			continue
		}
		for _, k := range n.devicesOf(p) {
			at := 0
			for _, q := range n.deviceParams(k) {
				if q == p.Param {
					n.reduced[k][at] = 0
				}
				if !q.Frozen {
					at++
				}
			}
		}
	}
	if !any {
		return errNoTiedTable
	}
	n.tables = n.rowsOf(n.largestPortions(training))
	return nil
}

// gathers reports whether the gradient of a parameter is gathered.
func (n *network) gathers(q *nn.Param) bool {
	return slices.ContainsFunc(n.tables, func(t tableRows) bool { return n.params[t.param].Param == q })
}

// rowsOf lays out the rows of a mini-batch; nil: none are gathered.
func (n *network) rowsOf(portions []portion) (all []tableRows) {
	for i := range n.params {
		p := &n.params[i]
		if !p.gathered {
			continue
		}
		t := tableRows{param: i, vocab: p.Shape[0], dim: p.Shape[1], uses: p.uses}
		for _, u := range p.uses {
			t.devices = append(t.devices, n.device(u.stage))
		}
		for r := range portions {
			s := &portions[r]
			first, begin := t.rows, 0
			for _, end := range s.ends {
				group := make([]span, len(p.uses))
				for j, u := range p.uses {
					group[j].from = t.rows
					t.rows += t.vocab
					if u.sparse {
						t.rows = group[j].from + s.rows(u, begin, end)
					}
					group[j].to = t.rows
				}
				t.groups = append(t.groups, group)
				begin = end
			}
			t.replicas = append(t.replicas, span{first, t.rows})
		}
		all = append(all, t)
	}
	return all
}

// rows is the number of rows that the micro-batches from from to to-1 have of a use.
func (s *portion) rows(u use, from, to int) (rows int) {
	for m := from; m < to; m++ {
		rows += s.programs[m][u.stage].Uses[u.index].Rows
	}
	return rows
}

// rowFloats is the workspace that adding up gathered rows takes on device k: a table for the
// chain of an embedding that is not the first use.
func (n *network) rowFloats(k int) (floats int) {
	for i := range n.tables {
		t := &n.tables[i]
		if t.on(k) && slices.ContainsFunc(t.uses[1:], func(u use) bool { return u.sparse }) {
			floats = max(floats, t.vocab*t.dim)
		}
	}
	return floats
}

// rowExchanges are the transfers between the devices of a replica of their rows, at the end
// of a step: those of every use go to every other device that has the table.
func (n *network) rowExchanges(rows []tableRows, replica int) (all []clock.Exchange) {
	for i := range rows {
		t := &rows[i]
		for j, from := range t.devices {
			var bytes int64
			for _, group := range t.ownGroups(n, replica) {
				bytes += t.bytes(group[j].from, group[j].to)
			}
			for _, to := range n.devicesOf(&n.params[t.param]) {
				if to != from {
					all = append(all, clock.Exchange{From: place.Stage(from), To: place.Stage(to), Bytes: bytes})
				}
			}
		}
	}
	return all
}

// ownGroups are the groups of a replica.
func (t *tableRows) ownGroups(n *network, replica int) [][]span {
	each := n.Groups / n.Replicas
	return t.groups[replica*each : (replica+1)*each]
}

// planRows adds what a device hands the same one of other replicas.
func (n *network) planRows(rows []tableRows, at place.Place, add func(from, to place.Place, what Load, messages int, bytes int64)) {
	messages, bytes := 0, int64(0)
	for i := range rows {
		if t := &rows[i]; t.on(at.Stage) {
			own := t.replicas[at.Replica]
			for range t.messages(own) {
				messages++
			}
			bytes += t.bytes(own.from, own.to)
		}
	}
	for replica := range n.Replicas {
		if other := (place.Place{Replica: replica, Stage: at.Stage}); other != at {
			add(at, other, GatheredRows, messages, bytes)
		}
	}
}

// rowMessageFloats is the most floats of a message with gathered rows, unless one row has
// more: as many as one of a reduction.
const rowMessageFloats = 4 * reduction.BlockFloats

// messages cuts rows into messages.
func (t *tableRows) messages(rows span) iter.Seq[span] {
	most := max(1, rowMessageFloats/(t.dim+1))
	return func(yield func(span) bool) {
		for at := rows.from; at < rows.to; at += most {
			if !yield(span{at, min(at+most, rows.to)}) {
				return
			}
		}
	}
}

// findRows finds the places of gathered rows in the arena, from a slot of Grads on. The
// device's copies of a table have the same.
func (d *device) findRows(slot int) {
	for i := range d.net.tables {
		t := &d.net.tables[i]
		if !t.on(d.k) {
			continue
		}
		ids := d.mem.slot(0, program.Grads, slot+1)
		for _, j := range d.index[t.param] {
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
func (w *weight) parts(t *tableRows, rows span) [][]float32 {
	ids := w.ids[rows.from:rows.to]
	return [][]float32{
		w.rows[rows.from*t.dim : rows.to*t.dim],
		unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(ids))), len(ids)),
	}
}

// eachTable calls f for every gathered gradient of the device's weights: of copies, the
// first.
func (r *stageRun) eachTable(f func(w *weight, t *tableRows) error) error {
	for i := range r.tables {
		if t := &r.tables[i]; t.on(r.k) {
			if err := f(&r.dev.weights[r.dev.index[t.param][0]], t); err != nil {
				return err
			}
		}
	}
	return nil
}

// touchRows records that rows up to the row end are used.
func (r *stageRun) touchRows(t *tableRows, end int) {
	n := r.trainer.net
	slot := 1 + n.sums() + n.tallies()
	for i := range n.tables {
		if n.tables[i].param == t.param {
			break
		}
		if n.tables[i].on(r.k) {
			slot += 2
		}
	}
	r.dev.mem.touch(0, program.Grads, slot, end*t.dim)
	r.dev.mem.touch(0, program.Grads, slot+1, end)
}

// ownGroup is the number, within the mini-batch, of a group of the replica.
func (r *stageRun) ownGroup(group int) int {
	n := r.trainer.net
	return r.at.Replica*(n.Groups/n.Replicas) + group
}

// keepRows copies the rows of a micro-batch's gradient to their place, if they are gathered.
func (r *chunkRun) keepRows(m int, g program.RowGradient) (kept bool) {
	uses := r.stage(m).Uses
	_ = r.eachTable(func(w *weight, t *tableRows) error {
		for i, u := range t.uses {
			if u.stage != r.k || !u.sparse || uses[u.index].Operand != g.Use {
				continue
			}
			group, begin := r.groupOf(m), 0
			if group > 0 {
				begin = r.ends[group-1]
			}
			at := t.groups[r.ownGroup(group)][i].from + r.portion.rows(u, begin, m)
			parts := r.dev.pool.Threads()
			r.dev.pool.Do(func(part int) {
				from, to := len(g.IDs)*part/parts, len(g.IDs)*(part+1)/parts
				g.CopyTo(w.rows[(at+from)*t.dim:(at+to)*t.dim], from, to)
				copy(w.ids[at+from:at+to], g.IDs[from:to])
			})
			r.touchRows(t, at+len(g.IDs))
			kept = true
		}
		return nil
	})
	return kept
}

// keepDense turns the dense gradients of the group that is complete into rows: all rows of
// the table.
func (r *stageRun) keepDense() {
	_ = r.eachTable(func(w *weight, t *tableRows) error {
		accumulators := r.accumulators(t.param)
		for i, u := range t.uses {
			if t.devices[i] != r.k {
				continue
			}
			dense := accumulators[0]
			accumulators = accumulators[1:]
			if at := t.groups[r.ownGroup(r.group)][i]; !u.sparse {
				parts := r.dev.pool.Threads()
				r.dev.pool.Do(func(part int) {
					from, to := t.vocab*part/parts, t.vocab*(part+1)/parts
					copy(w.rows[(at.from+from)*t.dim:], dense[from*t.dim:to*t.dim])
					for row := from; row < to; row++ {
						w.ids[at.from+row] = int32(row)
					}
				})
				r.touchRows(t, at.to)
			}
		}
		return nil
	})
}

// gatherRows makes the first accumulator of every table whose gradient is gathered the sum
// of all rows of all replicas.
func (r *stageRun) gatherRows(ctx context.Context) error {
	start := time.Now()
	if err := r.timedWork(ctx, timeline.Rows, r.keepDense); err != nil {
		return err
	}
	r.recordTables(timeline.PackRows, start)
	if err := r.eachTable(func(w *weight, t *tableRows) error { return r.exchangeRows(ctx, w, t) }); err != nil {
		return err
	}
	if r.trainer.net.Replicas > 1 {
		if err := r.eachTable(func(w *weight, t *tableRows) error {
			return reduction.AllGather(ctx, rowPeers{r, t}, func(rank int) iter.Seq2[int, [][]float32] {
				return func(yield func(int, [][]float32) bool) {
					for m := range t.messages(t.replicas[rank]) {
						if !yield(m.from, w.parts(t, m)) {
							return
						}
					}
				}
			})
		}); err != nil {
			return err
		}
	}
	adding := time.Now()
	if err := r.timedWork(ctx, timeline.Rows, func() {
		_ = r.eachTable(func(w *weight, t *tableRows) error {
			r.addRows(w, t)
			for _, j := range r.dev.index[t.param][1:] {
				copy(r.dev.weights[j].grads[0], w.grads[0])
			}
			return nil
		})
	}); err != nil {
		return err
	}
	r.recordTables(timeline.SumRows, adding)
	r.events = append(r.events, timeline.Event{
		At: r.at, Kind: timeline.Rows, Micro: -1,
		Start: start.Sub(r.start).Seconds(), End: time.Since(r.start).Seconds(),
	})
	return nil
}

// recordTables records what was done to all tables at once since start.
func (r *stageRun) recordTables(kind timeline.ActivityKind, start time.Time) {
	_ = r.eachTable(func(w *weight, t *tableRows) error {
		r.recorded.add([]int{r.dev.index[t.param][0]}, kind, -1, start, time.Now(), t.bytes(0, t.rows))
		return nil
	})
}

// exchangeRows sends the rows of this device's uses, of all groups of the replica, to the
// other devices that have the table, and receives theirs.
func (r *stageRun) exchangeRows(ctx context.Context, w *weight, t *tableRows) error {
	devices := r.trainer.net.devicesOf(&r.trainer.net.params[t.param])
	parts := func(use int) (all [][]float32) {
		for _, group := range t.ownGroups(r.trainer.net, r.at.Replica) {
			all = append(all, w.parts(t, group[use])...)
		}
		return all
	}
	route := func(from, to, use int) transport.Route {
		return transport.Route{From: r.neighbour(from), To: r.neighbour(to), What: transport.TiedGradient, Index: t.param<<16 | use}
	}
	sent := make(chan error, 1)
	go func() {
		sent <- func() error {
			for i, from := range t.devices {
				for _, to := range devices {
					if from == r.k && to != r.k {
						if err := r.session.Send(ctx, route(r.k, to, i), parts(i)); err != nil {
							return err
						}
					}
				}
			}
			return nil
		}()
	}()
	err := func() error {
		for i, from := range t.devices {
			if from == r.k {
				continue
			}
			if _, err := r.takeIn(ctx, route(from, r.k, i), TiedGradients, parts(i)); err != nil {
				return err
			}
			for _, group := range t.ownGroups(r.trainer.net, r.at.Replica) {
				r.touchRows(t, group[i].to)
			}
		}
		return nil
	}()
	if e := <-sent; err == nil {
		err = e
	}
	return err
}

// rowPeers are the same stage of all replicas, which gather the rows of a table. Copies
// are timed.
type rowPeers struct {
	*stageRun
	table *tableRows
}

func (p rowPeers) Ranks() int { return p.trainer.net.Replicas }
func (p rowPeers) Rank() int  { return p.at.Replica }

// route is that of a message of rows.
func (p rowPeers) route(from, to, row int) transport.Route {
	return transport.Route{
		From: place.Place{Replica: from, Stage: p.k}, To: place.Place{Replica: to, Stage: p.k},
		What: transport.GatheredRows, Index: row,
	}
}

func (p rowPeers) Send(ctx context.Context, to, row int, parts [][]float32) error {
	return p.session.Send(ctx, p.route(p.Rank(), to, row), parts)
}

func (p rowPeers) Receive(ctx context.Context, from, row int, parts [][]float32) error {
	start := time.Now()
	began, err := p.takeIn(ctx, p.route(from, p.Rank(), row), GatheredRows, parts)
	if err == nil {
		p.recorded.message([]int{p.dev.index[p.table.param][0]}, from, start, began, bytesOf(parts))
		p.times.Rows += time.Since(began).Seconds()
		p.touchRows(p.table, row+len(parts[1]))
	}
	return err
}

// addRows adds up the rows of all groups in the weight's first accumulator. Each thread has
// columns of its own, in which it does everything.
func (r *stageRun) addRows(w *weight, t *tableRows) {
	parts := r.dev.pool.Threads()
	floats := r.trainer.net.rowFloats(r.k)
	other := r.dev.mem.slot(0, program.Workspace, 0)[:floats]
	r.dev.mem.touch(0, program.Workspace, 0, floats)
	r.dev.pool.Do(func(part int) {
		c := columns{w: w, t: t, sum: w.grads[0], other: other, from: t.dim * part / parts, to: t.dim * (part + 1) / parts}
		for g := range t.groups {
			c.group(g)
			if len(t.groups) > 1 {
				copyRows(c.place(g), c.sum, t.dim, c.from, c.to)
			}
		}
		if len(t.groups) > 1 {
			c.tree(0, len(t.groups))
			copyRows(c.sum, c.place(0), t.dim, c.from, c.to)
		}
	})
}

// columns are some columns of a table's gradient, in which rows are added up.
type columns struct {
	w          *weight
	t          *tableRows
	sum, other []float32 // tables
	from, to   int
}

// group makes sum the sum of a group: its uses in layer order.
func (c *columns) group(g int) {
	for i, u := range c.t.uses {
		rows := c.t.groups[g][i]
		values, ids := c.w.rows[rows.from*c.t.dim:rows.to*c.t.dim], c.w.ids[rows.from:rows.to]
		into := c.sum
		if i > 0 && u.sparse {
			into = c.other
		}
		if i == 0 || u.sparse {
			c.zero(into)
		}
		if u.sparse {
			program.AddRows(into, values, ids, c.t.dim, c.from, c.to, u.scale)
			if i > 0 {
				addRows(c.sum, c.other, c.t.dim, c.from, c.to)
			}
			continue
		}
		for row, id := range ids {
			from, to := int(id)*c.t.dim+c.from, int(id)*c.t.dim+c.to
			value := values[row*c.t.dim+c.from : row*c.t.dim+c.to]
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
	for i := len(c.t.uses) - 1; ; i-- {
		if !c.t.uses[i].sparse {
			rows := c.t.groups[g][i]
			return c.w.rows[rows.from*c.t.dim : rows.to*c.t.dim]
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
	addRows(c.place(lo), c.place(middle), c.t.dim, c.from, c.to)
}

func (c *columns) zero(table []float32) {
	for at := 0; at < len(table); at += c.t.dim {
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
