package gpipe

import (
	"iter"
	"slices"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/nn"
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
func gatherTied(n *network) error {
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
func gathers(n *network, q *nn.Param) bool {
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
