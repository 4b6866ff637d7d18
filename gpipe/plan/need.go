package plan

import (
	"slices"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn/program"
)

// Replicas are consecutive ones whose micro-batches have the same sizes: they take the
// same time and the same memory, but for what they own of sums over replicas.
type Replicas struct {
	from, To int                      // without to
	Portions [Predicting + 1]*Portion // of the largest mini-batch of every purpose; nil: there is none
}

// Alike divides the replicas into those that are alike.
func (n *Network) Alike() (all []Replicas) {
	var portions [Predicting + 1][]Portion
	for what := range portions {
		if in := n.largestInput(Purpose(what)); in.Examples > 0 {
			portions[what] = n.LargestPortions(Purpose(what))
		}
	}
	for r := range n.Replicas {
		next, like := Replicas{from: r, To: r + 1}, r > 0
		for what := range portions {
			if portions[what] != nil {
				next.Portions[what] = &portions[what][r]
				like = like && slices.Equal(portions[what][r].Sizes, portions[what][r-1].Sizes)
			}
		}
		if like {
			all[len(all)-1].To++
		} else {
			all = append(all, next)
		}
	}
	return all
}

// fullest is the one of replicas that are alike that stands for them on stage k: if updates
// are divided, the one that updates most, and of these the one with the largest buffers
// for the sums over replicas.
func fullest(n *Network, of Replicas, k int) int {
	fullest, most := of.from, [2]int{-1, -1}
	for r := of.from; r < of.To; r++ {
		at := place.Place{Replica: r, Stage: k}
		needs := [2]int{0, reduceFloats(n, at)}
		for _, part := range n.Updated(at) {
			needs[0] += part.Len()
		}
		if slices.Compare(needs[:], most[:]) > 0 {
			fullest, most = r, needs
		}
	}
	return fullest
}

// MemoryPlans makes the plans of all devices, in the order of place.Of.
func (n *Network) MemoryPlans() (all []*Plan) {
	for _, of := range n.Alike() {
		for r := of.from; r < of.To; r++ {
			for k := range n.Partitions {
				at := place.Place{Replica: r, Stage: k}
				if r == of.from || n.ShardUpdate || reduceFloats(n, at) != reduceFloats(n, place.Place{Replica: r - 1, Stage: k}) {
					all = append(all, n.plan(at, of.Portions))
					continue
				}
				plan := *all[len(all)-n.Partitions]
				plan.At = at
				all = append(all, &plan)
			}
		}
	}
	return all
}

// FullestPlans are the plans of one replica for all that are alike. Of a divided update, a
// stage has the plan of the replica that updates most of it.
func (n *Network) FullestPlans(alike []Replicas) (all []*Plan) {
	for _, of := range alike {
		for k := range n.Partitions {
			all = append(all, n.plan(place.Place{Replica: fullest(n, of, k), Stage: k}, of.Portions))
		}
	}
	return all
}

// needs gathers what a device's plan depends on.
type needs struct {
	net    *Network
	at     place.Place
	shares [Predicting + 1]*Portion // a replica's, of the largest mini-batch of every purpose; nil: there is none
	// ahead is how many inputs each piece must have room for where nothing is trained, with
	// several chunks on a device; else nil: a pair is enough.
	ahead []int
	planInput
}

func newNeeds(n *Network, at place.Place, shares [Predicting + 1]*Portion) *needs {
	in := &needs{net: n, at: at, shares: shares, planInput: planInput{chunks: make([]chunkInput, len(n.Pieces.On(at.Stage)))}}
	in.workspace(0)
	return in
}

// plan makes the memory plan of a device for a replica's shares of the largest
// mini-batches of every purpose, nil if there are none. Purposes do not run at the same
// time, so each piece of memory is as large as the purpose that needs most of it
// requires.
func (n *Network) plan(at place.Place, shares [Predicting + 1]*Portion) *Plan {
	k := at.Stage
	in := newNeeds(n, at, shares)
	for c, piece := range n.Pieces.On(k) {
		st := n.Largest(piece)
		for version := range n.versions(shares[Training], k) {
			in.chunks[c].hold(program.Params, version, st.Span[program.Params])
		}
		in.chunks[c].hold(program.Grads, 0, st.Span[program.Grads])
	}
	in.findAhead()
	if s := shares[Training]; s != nil && len(s.Programs) > 0 {
		in.train(s)
	}
	for _, what := range []Purpose{Evaluating, Predicting} {
		if shares[what] != nil {
			for c, piece := range n.Pieces.On(k) {
				in.forward(piece, what, &in.chunks[c])
			}
		}
	}
	in.state = n.stateSlots()
	elsewhere := 0
	for i, part := range n.Updated(at) {
		in.params = append(in.params, part.Len())
		elsewhere += n.trained[k][i] - part.Len()
	}
	in.params = on(0, n.Slices(k), in.params)
	p := newPlan(in.planInput)
	p.At, p.Elsewhere, p.Normed = at, elsewhere, normed(n, at)
	for part := range n.parts() - 1 {
		p.Parts = append(p.Parts, planPart(n, at, part, shares))
	}
	return p
}

// versions is how many versions of the weights a device holds at once.
func (n *Network) versions(training *Portion, device int) int {
	if training == nil || !n.Asynchronous() {
		return 1
	}
	_, versions := schedule.WeightSlots(training.Lists[device])
	return versions
}

// findAhead finds how many inputs pieces must have room for where nothing is trained.
func (in *needs) findAhead() {
	n := in.net
	if n.placed.IsStraight() {
		return
	}
	in.ahead = make([]int, n.Pieces.Len())
	for _, what := range []Purpose{Evaluating, Predicting} {
		if s := in.shares[what]; s != nil {
			for k, ahead := range schedule.InputsAhead(s.Lists, n.placed, len(s.Sizes)) {
				in.ahead[k] = max(in.ahead[k], ahead)
			}
		}
	}
}

// train adds what the device needs to train.
func (in *needs) train(s *Portion) {
	n, k, train, list := in.net, in.at.Stage, s.Programs, s.Lists[in.at.Stage]
	workspace := 0
	for _, t := range list {
		if t.Kind == schedule.Update { // which runs no program
			continue
		}
		piece := n.Pieces.On(k)[t.Chunk]
		st := train[t.Micro][piece]
		prog := ProgramOf(st, t)
		workspace = max(workspace, prog.Span)
		if t.Kind == schedule.Recompute && piece < n.Pieces.Len()-1 {
			in.keep = max(in.keep, prog.Span)
			in.discard = max(in.discard, st.Span[program.Out])
		}
	}
	in.workspace(workspace)
	in.exchange = max(exchangeFloats(n, k), n.RowFloats(k), reduceFloats(n, in.at))
	if s.gradients == nil {
		s.gradients = clock.GradientSlots(s.Lists, n.placed, len(train))
	}
	for c, piece := range n.Pieces.On(k) {
		if of := train[0][piece].Backward; in.widest == nil || of.Span > in.widest.Span {
			in.widest = of
		}
		in.trainChunk(piece, s, ofChunk(list, c), &in.chunks[c], s.gradients[piece])
	}
	in.sums(0)
}

// trainChunk adds what the device needs for one of its pieces of the network, whose tasks are
// given.
func (in *needs) trainChunk(k int, s *Portion, list []schedule.Task, of *chunkInput, gradients int) {
	n, train := in.net, s.Programs
	// A receiver holds an input from its arrival to its B. Its sender has as
	// many in flight as its own list says, and never runs further ahead.
	before := n.Pieces.At(0, max(k-1, 0))
	inputs := schedule.Holds(ofChunk(s.Lists[before.Stage], before.Chunk)).Inputs
	if in.ahead != nil {
		inputs = max(inputs, in.ahead[k])
	}
	own := schedule.Holds(list)
	slots := func(s program.Space, count int) {
		for m := range train {
			of.hold(s, m%count, train[m][k].Span[s]) // slot i holds micro-batches i, i+count, ...
		}
	}
	slots(program.In, inputs)
	if train[0][k].Span[program.Statistics] > 0 {
		slots(program.Statistics, own.Inputs)
	}
	of.keep(list, func(m int) *program.Stage { return train[m][k] })
	pair := min(2, len(train))
	if k < n.Pieces.Len()-1 {
		slots(program.Out, pair)
		slots(program.DOut, gradients)
	} else {
		slots(program.Out, 1)
	}
	if k > 0 {
		slots(program.DIn, pair)
	}
}

// forward adds what a piece needs to evaluate or predict. With training, the
// training's slots are used, made larger where necessary; without, there is a pair at
// each edge, so that a tensor can cross it while the next one is made, or as many as are
// ahead.
func (in *needs) forward(k int, what Purpose, of *chunkInput) {
	all := in.shares[what].Programs
	last := k == in.net.Pieces.Len()-1
	slots := func(s program.Space, count int) {
		if trained := len(of.slots[s]); trained > 0 {
			count = trained
		}
		for m := range all {
			of.hold(s, m%count, all[m][k].Span[s])
		}
	}
	inputs := min(k+1, 2)
	if in.ahead != nil {
		inputs = max(inputs, in.ahead[k])
	}
	slots(program.In, inputs)
	switch {
	case !last:
		slots(program.Out, 2)
	case what == Evaluating:
		slots(program.Out, 1)
	}
	for _, c := range all {
		need := c[k].Forward.Span
		if last && what == Predicting {
			need = PredictionOffset(c[k]) + c[k].Span[program.Out]
		}
		if need > in.chunks[0].slots[program.Workspace][0] {
			in.workspace(need)
			in.widest, in.widestFor = c[k].Forward, what
		}
	}
}

// sums adds what the device needs to add up a replica's groups: besides the running
// group's accumulators and tallies, which are the programs', the sums of groups before
// it, each group's tallies, and the rows of gathered gradients.
func (in *needs) sums(part int) {
	n, k := in.net, in.at.Stage
	_, span := program.Layout(on(part, n.Slices(k), n.Reduced[k]))
	grads := &in.chunks[0].slots[program.Grads]
	for range n.Sums() {
		*grads = append(*grads, span)
	}
	if part > 0 {
		return
	}
	for range n.Tallies() {
		*grads = append(*grads, tallyFloats(n, k))
	}
	for i := range n.Tables {
		if t := &n.Tables[i]; t.On(k) {
			*grads = append(*grads, t.Rows*t.Dim, t.Rows)
		}
	}
}

// planPart makes the memory plan of a part of a stage after the first: its weights, its part
// of residuals, and a workspace; where operations are divided, also gradients and the optimiser's state
// of its slices. Part counts from 0.
func planPart(n *Network, at place.Place, part int, shares [Predicting + 1]*Portion) *Plan {
	pieces := n.Pieces.On(at.Stage)
	in := newNeeds(n, at, shares)
	uses := func(p *program.Program, what Purpose) {
		if p.Span >= in.chunks[0].slots[program.Workspace][0] {
			in.widest, in.widestFor = p, what
		}
		in.workspace(max(p.Span, in.chunks[0].slots[program.Workspace][0]))
	}
	for c, piece := range pieces {
		in.chunks[c].hold(program.Params, 0, n.Largest(piece).Parts[part].Span[program.Params])
		for what, s := range shares {
			switch {
			case s == nil:
			case Purpose(what) != Training:
				for _, programs := range s.Programs {
					uses(programs[piece].Parts[part].Forward, Purpose(what))
				}
			case len(s.Programs) > 0:
				list := ofChunk(s.Lists[at.Stage], c)
				of := func(m int) *program.Stage { return s.Programs[m][piece].Parts[part] }
				for _, t := range list {
					uses(ProgramOf(of(t.Micro), t), Training)
				}
				in.chunks[c].keep(list, of)
			}
		}
	}
	if n.Tensor > 1 && n.Trains() {
		for c, piece := range pieces {
			in.chunks[c].hold(program.Grads, 0, n.Largest(piece).Parts[part].Span[program.Grads])
		}
		in.sums(part + 1)
		in.params, in.state = on(part+1, n.Slices(at.Stage), n.trained[at.Stage]), n.stateSlots()
	}
	p := newPlan(in.planInput)
	p.At = at
	return p
}
