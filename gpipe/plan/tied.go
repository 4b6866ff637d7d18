package plan

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
// the tree. So gathered gradients have the bits of reduced ones. Rows are the rows of the
// backward function before they are scaled, since the chain scales and adds with one
// rounding.

// Span are rows from from to to-1.
type Span struct{ From, To int }

// TableRows is where the rows of a mini-batch's gradient of a table lie: group by group, in
// each use by use.
type TableRows struct {
	Param      int // index into Network.Params
	Vocab, Dim int // the table's shape
	Uses       []Use
	Devices    []int    // of each use
	Groups     [][]Span // by group of the mini-batch and use
	Replicas   []Span   // of each replica: those of its groups, which are consecutive
	Rows       int      // of all groups
}

// On reports whether a device has the table.
func (t *TableRows) On(device int) bool { return slices.Contains(t.Devices, device) }

// Bytes is the size of some rows and their indices.
func (t *TableRows) Bytes(from, to int) int64 { return int64(to-from) * int64(t.Dim+1) * FloatBytes }

// gatherTied chooses the parameters whose gradients are gathered: those with rows and
// dense gradients among their uses.
func gatherTied(n *Network) error {
	n.Reduced = n.trained
	if n.TiedGradients != GatherTied || !n.Trains() {
		return nil
	}
	n.Reduced = make([][]int, len(n.trained))
	for k := range n.trained {
		n.Reduced[k] = slices.Clone(n.trained[k])
	}
	sparse := func(u Use) bool { return u.Sparse }
	any := false
	for i := range n.Params {
		p := &n.Params[i]
		p.Gathered = slices.ContainsFunc(p.Uses, sparse) && slices.ContainsFunc(p.Uses, func(u Use) bool { return !u.Sparse })
		any = any || p.Gathered
		if !p.Gathered {
			continue
		}
		for _, k := range n.DevicesOf(p) {
			at := 0
			for _, q := range n.DeviceParams(k) {
				if q == p.Param {
					n.Reduced[k][at] = 0
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
	n.Tables = n.RowsOf(n.LargestPortions(Training))
	return nil
}

// gathers reports whether the gradient of a parameter is gathered.
func gathers(n *Network, q *nn.Param) bool {
	return slices.ContainsFunc(n.Tables, func(t TableRows) bool { return n.Params[t.Param].Param == q })
}

// RowsOf lays out the rows of a mini-batch; nil: none are gathered.
func (n *Network) RowsOf(portions []Portion) (all []TableRows) {
	for i := range n.Params {
		p := &n.Params[i]
		if !p.Gathered {
			continue
		}
		t := TableRows{Param: i, Vocab: p.Shape[0], Dim: p.Shape[1], Uses: p.Uses}
		for _, u := range p.Uses {
			t.Devices = append(t.Devices, n.Device(u.Stage))
		}
		for r := range portions {
			s := &portions[r]
			first, begin := t.Rows, 0
			for _, end := range s.Ends {
				group := make([]Span, len(p.Uses))
				for j, u := range p.Uses {
					group[j].From = t.Rows
					t.Rows += t.Vocab
					if u.Sparse {
						t.Rows = group[j].From + s.Rows(u, begin, end)
					}
					group[j].To = t.Rows
				}
				t.Groups = append(t.Groups, group)
				begin = end
			}
			t.Replicas = append(t.Replicas, Span{first, t.Rows})
		}
		all = append(all, t)
	}
	return all
}

// RowFloats is the workspace that adding up gathered rows takes on device k: a table for the
// chain of an embedding that is not the first use.
func (n *Network) RowFloats(k int) (floats int) {
	for i := range n.Tables {
		t := &n.Tables[i]
		if t.On(k) && slices.ContainsFunc(t.Uses[1:], func(u Use) bool { return u.Sparse }) {
			floats = max(floats, t.Vocab*t.Dim)
		}
	}
	return floats
}

// RowExchanges are the transfers between the devices of a replica of their rows, at the end
// of a step: those of every use go to every other device that has the table.
func (n *Network) RowExchanges(rows []TableRows, replica int) (all []clock.Exchange) {
	for i := range rows {
		t := &rows[i]
		for j, from := range t.Devices {
			var bytes int64
			for _, group := range t.OwnGroups(n, replica) {
				bytes += t.Bytes(group[j].From, group[j].To)
			}
			for _, to := range n.DevicesOf(&n.Params[t.Param]) {
				if to != from {
					all = append(all, clock.Exchange{From: place.Stage(from), To: place.Stage(to), Bytes: bytes})
				}
			}
		}
	}
	return all
}

// OwnGroups are the groups of a replica.
func (t *TableRows) OwnGroups(n *Network, replica int) [][]Span {
	each := n.Groups / n.Replicas
	return t.Groups[replica*each : (replica+1)*each]
}

// rowMessageFloats is the most floats of a message with gathered rows, unless one row has
// more: as many as one of a reduction.
const rowMessageFloats = 4 * reduction.BlockFloats

// Messages cuts rows into messages.
func (t *TableRows) Messages(rows Span) iter.Seq[Span] {
	most := max(1, rowMessageFloats/(t.Dim+1))
	return func(yield func(Span) bool) {
		for at := rows.From; at < rows.To; at += most {
			if !yield(Span{at, min(at+most, rows.To)}) {
				return
			}
		}
	}
}
