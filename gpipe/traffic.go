package gpipe

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/nn/program"
)

// Traffic is what one place sent another during a step, or let it read in place, of one
// kind of load; of what parts of images exchange, both are the parts' stage. Short messages, such as norms, are not counted.
type Traffic struct {
	From, To place.Place
	What     Load
	Messages int64
	Bytes    int64
	Seconds  float64 // in which the receiver took in the bytes, without waiting for their sender; 0 of a plan, and of what is read in place
}

// Load is a kind of tensors that places send each other.
type Load uint8

const (
	BoundaryActivations Load = iota // to the next stage
	BoundaryGradients               // to the stage before
	TiedGradients                   // of a weight that several stages use
	SharedStatistics                // of batch norm over replicas
	Summands                        // gradients for the replica that adds them up
	Sums                            // of gradients, from the replica that has added them up to the others
	UpdatedWeights                  // after divided updates, from the replica that has updated them to the others
	GatheredRows                    // of the gradients of tied tables, with their indices
	PartRows                        // that parts of a stage's images copy from each other, with accumulators that go around; new weights are not counted
	Loads                           // is how many kinds there are
)

var loads = [...]string{
	BoundaryActivations: "activations", BoundaryGradients: "gradients", TiedGradients: "tied gradients", SharedStatistics: "statistics",
	Summands: "gradients to add up", Sums: "sums of gradients", UpdatedWeights: "updated weights",
	GatheredRows: "gathered rows", PartRows: "rows of parts",
}

func (l Load) String() string {
	if int(l) < len(loads) {
		return loads[l]
	}
	return fmt.Sprintf("Load(%d)", uint8(l))
}

// traffic counts what a stage receives. Several goroutines do that.
type traffic struct {
	mu  sync.Mutex
	all []Traffic
}

func (t *traffic) add(of Traffic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.all, func(a Traffic) bool { return a.From == of.From && a.What == of.What })
	if i < 0 {
		t.all = append(t.all, of)
		return
	}
	a := &t.all[i]
	a.Messages, a.Bytes, a.Seconds = a.Messages+of.Messages, a.Bytes+of.Bytes, a.Seconds+of.Seconds
}

// sortTraffic puts traffic into an order: by receiver, kind and sender.
func sortTraffic(all []Traffic) {
	slices.SortFunc(all, func(a, b Traffic) int {
		return cmp.Or(a.To.Compare(b.To), cmp.Compare(a.What, b.What), a.From.Compare(b.From))
	})
}

// planTraffic is what the places of a training step send each other, from shapes alone.
func (n *network) planTraffic(portions []portion) (all []Traffic) {
	add := func(from, to place.Place, what Load, messages int, bytes int64) {
		if messages > 0 {
			all = append(all, Traffic{From: from, To: to, What: what, Messages: int64(messages), Bytes: bytes})
		}
	}
	rows := n.rowsOf(portions)
	for replica, p := range portions {
		for k := range n.pieces.Len() - 1 {
			var forwards, backwards int64
			for _, programs := range p.programs {
				forwards += programs.boundaryBytes(k)
				backwards += tensorBytes(programs[k].DOut)
			}
			before, after := n.pieces.At(replica, k), n.pieces.At(replica, k+1)
			add(before, after, BoundaryActivations, len(p.programs), forwards)
			add(after, before, BoundaryGradients, len(p.programs), backwards)
		}
		tied := map[[2]int]Traffic{}
		exchange := func(all []clock.Exchange, times int) {
			for _, x := range all {
				pair := [2]int{x.From.Stage, x.To.Stage}
				sum := tied[pair]
				sum.Messages, sum.Bytes = sum.Messages+int64(times), sum.Bytes+int64(times)*x.Bytes
				tied[pair] = sum
			}
		}
		exchange(n.exchanges(), len(p.ends))
		exchange(n.rowExchanges(rows, replica), 1)
		for pair, sum := range tied {
			from, to := place.Place{Replica: replica, Stage: pair[0]}, place.Place{Replica: replica, Stage: pair[1]}
			add(from, to, TiedGradients, int(sum.Messages), sum.Bytes)
		}
		for k := range n.Partitions {
			n.planRows(rows, place.Place{Replica: replica, Stage: k}, add)
			for _, piece := range n.pieces.On(k) {
				n.planMeetings(&p, n.pieces.At(replica, piece), add)
				n.planParts(&p, n.pieces.At(replica, piece), add)
			}
			n.planReduction(place.Place{Replica: replica, Stage: k}, add)
		}
	}
	sortTraffic(all)
	return all
}

// planMeetings adds what a stage sends and gets at the meetings of batch norms.
func (n *network) planMeetings(p *portion, at place.Place, add func(from, to place.Place, what Load, messages int, bytes int64)) {
	first, _ := n.scopeOf(at.Replica)
	if at.Replica == first {
		return
	}
	messages, bytes := 0, int64(0)
	for _, programs := range p.programs {
		for _, of := range []*program.Program{programs[n.pieces.Piece(at)].Forward, programs[n.pieces.Piece(at)].Backward} {
			_, values := of.Meetings()
			for _, value := range values {
				messages, bytes = messages+1, bytes+value
			}
		}
	}
	adder := n.pieces.At(first, n.pieces.Piece(at))
	add(at, adder, SharedStatistics, messages, bytes)
	add(adder, at, SharedStatistics, messages, bytes)
}

// planParts adds what the parts of a stage's images copy from each other.
func (n *network) planParts(p *portion, at place.Place, add func(from, to place.Place, what Load, messages int, bytes int64)) {
	messages, bytes := 0, int64(0)
	for _, t := range ofChunk(p.lists[at.Stage], at.Chunk) {
		m, b := programOf(p.programs[t.Micro][n.pieces.Piece(at)], t).Exchanged()
		messages, bytes = messages+m, bytes+b
	}
	add(at, at, PartRows, messages, bytes)
}

// planReduction adds what a stage sends the same one of other replicas.
func (n *network) planReduction(at place.Place, add func(from, to place.Place, what Load, messages int, bytes int64)) {
	if n.Replicas == 1 {
		return
	}
	layout := n.reducedLayout(at.Stage)
	owned := func(replica int) (messages int, bytes int64) {
		from, to := layout.Owned(n.Replicas, replica)
		for chunk := from; chunk < to; chunk++ {
			bytes += int64(layout.Floats(chunk)) * floatBytes
		}
		return layout.Messages(n.Replicas, replica), bytes
	}
	handed := Sums
	if n.ShardUpdate {
		handed = UpdatedWeights
	}
	own, ownBytes := owned(at.Replica)
	for replica := range n.Replicas {
		if other := (place.Place{Replica: replica, Stage: at.Stage}); other != at {
			messages, bytes := owned(replica)
			add(at, other, Summands, messages, bytes)
			add(at, other, handed, own, ownBytes)
		}
	}
}

// tensorBytes is the size of tensors that cross a boundary.
func tensorBytes(ts []program.Tensor) (n int64) {
	for _, t := range ts {
		n += int64(t.Len) * floatBytes
	}
	return n
}
