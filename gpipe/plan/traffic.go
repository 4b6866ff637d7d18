package plan

import (
	"cmp"
	"slices"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/internal/named"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
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
	PartEdges                       // what has come over a stage's edge, from the first of the parts of its operations to the others
	PartReduces                     // results of which each of these parts has a summand, and their sums
	PartGathers                     // parts of values that all of these parts get whole
	PartTurns                       // sums that go from part to part of these
	PartSlices                      // of gradients and weights, for their norms
	PartRows                        // that parts of a stage's images copy from each other, with accumulators that go around; new weights are not counted
	Loads                           // is how many kinds there are
)

var loads = [...]string{
	BoundaryActivations: "activations", BoundaryGradients: "gradients", TiedGradients: "tied gradients", SharedStatistics: "statistics",
	Summands: "gradients to add up", Sums: "sums of gradients", UpdatedWeights: "updated weights",
	GatheredRows: "gathered rows", PartRows: "rows of parts",
	PartEdges: "edges of parts", PartReduces: "sums of parts", PartGathers: "gathers of parts", PartTurns: "turns of parts", PartSlices: "slices of parts",
}

func (l Load) String() string { return named.String(l, loads[:], "Load") }

// SortTraffic puts traffic into an order: by receiver, kind and sender.
func SortTraffic(all []Traffic) {
	slices.SortFunc(all, func(a, b Traffic) int {
		return cmp.Or(a.To.Compare(b.To), cmp.Compare(a.What, b.What), a.From.Compare(b.From))
	})
}

// trafficPlan gathers what the places of a training step send each other.
type trafficPlan struct {
	*Network
	all []Traffic
}

func (n *trafficPlan) add(from, to place.Place, what Load, messages int, bytes int64) {
	if messages > 0 {
		n.all = append(n.all, Traffic{From: from, To: to, What: what, Messages: int64(messages), Bytes: bytes})
	}
}

// PlanTraffic is what the places of a training step send each other, from shapes alone.
func (n *Network) PlanTraffic(portions []Portion) []Traffic {
	t := &trafficPlan{Network: n}
	rows := n.RowsOf(portions)
	for replica, p := range portions {
		for k := range n.Pieces.Len() - 1 {
			var forwards, backwards int64
			for _, programs := range p.Programs {
				forwards += programs.BoundaryBytes(k)
				backwards += tensorBytes(programs[k].DOut)
			}
			before, after := n.Pieces.At(replica, k), n.Pieces.At(replica, k+1)
			t.add(before, after, BoundaryActivations, len(p.Programs), forwards)
			t.add(after, before, BoundaryGradients, len(p.Programs), backwards)
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
		exchange(n.Exchanges(), len(p.Ends))
		exchange(n.RowExchanges(rows, replica), 1)
		for pair, sum := range tied {
			from, to := place.Place{Replica: replica, Stage: pair[0]}, place.Place{Replica: replica, Stage: pair[1]}
			t.add(from, to, TiedGradients, int(sum.Messages), sum.Bytes)
		}
		for k := range n.Partitions {
			at := place.Place{Replica: replica, Stage: k}
			t.rows(rows, at)
			for _, piece := range n.Pieces.On(k) {
				t.meetings(&p, n.Pieces.At(replica, piece))
				t.parts(&p, n.Pieces.At(replica, piece))
			}
			t.reduction(at)
			t.gathers(at)
		}
	}
	SortTraffic(t.all)
	return t.all
}

// meetings adds what a stage sends and gets at the meetings of batch norms.
func (n *trafficPlan) meetings(p *Portion, at place.Place) {
	first, _ := n.ScopeOf(at.Replica)
	if at.Replica == first {
		return
	}
	messages, bytes := 0, int64(0)
	for _, programs := range p.Programs {
		for _, of := range []*program.Program{programs[n.Pieces.Piece(at)].Forward, programs[n.Pieces.Piece(at)].Backward} {
			_, values := of.Meetings()
			for _, value := range values {
				messages, bytes = messages+1, bytes+value
			}
		}
	}
	adder := n.Pieces.At(first, n.Pieces.Piece(at))
	n.add(at, adder, SharedStatistics, messages, bytes)
	n.add(adder, at, SharedStatistics, messages, bytes)
}

// parts adds what the parts of a stage's images copy from each other.
func (n *trafficPlan) parts(p *Portion, at place.Place) {
	for what, load := range OfKind {
		messages, bytes := 0, int64(0)
		for _, t := range ofChunk(p.Lists[at.Stage], at.Chunk) {
			if t.Kind == schedule.Update {
				continue
			}
			m, b := ProgramOf(p.Programs[t.Micro][n.Pieces.Piece(at)], t).Exchanged(program.Kind(what))
			messages, bytes = messages+m, bytes+b
		}
		n.add(at, at, load, messages, bytes)
	}
}

// OfKind are the kinds of load of what parts send each other.
var OfKind = [program.Kinds]Load{
	program.RowsOfImages: PartRows, program.EdgeValues: PartEdges, program.AllReduced: PartReduces,
	program.AllGathered: PartGathers, program.TakenInTurns: PartTurns,
}

// reduction adds what a stage sends the same one of other replicas.
func (n *trafficPlan) reduction(at place.Place) {
	if n.Replicas == 1 {
		return
	}
	layout := n.ReducedLayout(at.Stage)
	owned := func(replica int) (messages int, bytes int64) {
		from, to := layout.Owned(n.Replicas, replica)
		for chunk := from; chunk < to; chunk++ {
			bytes += int64(layout.Floats(chunk)) * FloatBytes
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
			n.add(at, other, Summands, messages, bytes)
			n.add(at, other, handed, own, ownBytes)
		}
	}
}

// rows adds what a device hands the same one of other replicas.
func (n *trafficPlan) rows(rows []TableRows, at place.Place) {
	messages, bytes := 0, int64(0)
	for i := range rows {
		if t := &rows[i]; t.On(at.Stage) {
			own := t.Replicas[at.Replica]
			for range t.Messages(own) {
				messages++
			}
			bytes += t.Bytes(own.From, own.To)
		}
	}
	for replica := range n.Replicas {
		if other := (place.Place{Replica: replica, Stage: at.Stage}); other != at {
			n.add(at, other, GatheredRows, messages, bytes)
		}
	}
}
