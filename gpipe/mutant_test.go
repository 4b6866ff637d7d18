package gpipe

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// mutant is a defect in the code that the guarantees' tests must notice.
type mutant struct {
	name     string
	file     string // relative to this package
	from, to string // the first occurrence is replaced
	test     string // the tests that must fail
}

var mutants = []mutant{
	{"a loss scaled per micro-batch", "tasks.go",
		"LossScale: float32(1 / float64(r.batches[mini].Count))",
		"LossScale: float32(1 / float64(r.Sizes[m]*len(r.Sizes)))", "TestG1$"},
	{"a dropout key that forgets the example", "tasks.go",
		"Example: uint64(r.Firsts[m])", "Example: uint64(0 * m)", "TestG1$"},
	{"a norm summed per stage", "norm.go",
		"		total += tensors[i]",
		"		if p.Home() == r.k {\n			total += tensors[i]\n		}", "TestG1$"},
	{"dropout keyed by the index within the replica", "tasks.go",
		"Example: uint64(r.Firsts[m])", "Example: uint64(r.Firsts[m] - r.Firsts[0])", "TestG1Replicas$"},
	{"a ring's order of additions", "reduction/allreduce.go",
		"	middle := lo + Split(hi-lo)\n", "	middle := lo + 1\n", "TestG1Replicas$"},
	{"ranks in the order of replicas' ends", "report.go",
		"	for replica := range s.portions {\n		last :=", "	for replica := range s.portions {\n		replica = len(s.portions) - 1 - replica\n		last :=", "TestEvaluateReplicas"},
	{"tallies in the order of arrival", "moving.go",
		"	for _, groups := range all {\n", "	for i := range all {\n		groups := all[len(all)-1-i]\n", "TestG1ReplicasOfImages"},
	{"a mean of losses within the replica", "tasks.go",
		"LossScale: float32(1 / float64(r.batches[mini].Count))",
		"LossScale: float32(1 / float64(r.batches[mini].Count/len(r.portions))) / float32(len(r.portions))", "TestG1Replicas$"},
	{"norms from what a replica owns", "norm.go",
		"			for replica := range n.Replicas {\n", "			for replica := r.at.Replica; replica <= r.at.Replica; replica++ {\n", "TestG1Replicas$"},
	{"groups added one after another", "reduction/reduction.go",
		"	completed := bits.TrailingZeros(^uint(s.groups))", "	completed := min(1, s.groups)", "TestG1Replicas$"},
	{"a tied gradient that is not exchanged", "reduce.go",
		"		copy(r.dev.weights[j].grads[0], sum)\n", "		_ = j\n", "TestG1$"},
	{"gathered rows without the last", "tied.go",
		"values, ids, c.t.Dim, c.from", "values, ids[:len(ids)-1], c.t.Dim, c.from", "TestGatherTied$"},
	{"gathered rows that continue the chain of the use before", "tied.go",
		"		if i > 0 && u.Sparse {\n			into = c.other", "		if i > 1 && u.Sparse {\n			into = c.other", "TestGatherTied$"},
	{"gathered groups one after another", "tied.go",
		"	middle := lo + reduction.Split(hi-lo)\n", "	middle := hi - 1\n", "TestGatherTied$"},
	{"rows of micro-batches in one place", "tied.go",
		"[i].From + r.Portion.Rows(u, begin, m)", "[i].From + r.Portion.Rows(u, begin, begin)", "TestGatherTied$"},
	{"a part of an operation that is reduced twice", "../nn/program/tensorops.go",
		"kernel.Add(place, place, sum(middle, hi))", "kernel.Add(place, place, sum(lo, middle))", "TestG1Tensor$"},
	{"blocks of an operation added in another order", "../nn/program/tensorops.go",
		"	return 1 << (bits.Len(uint(n-1)) - 1)\n", "	return n - 1\n", "TestG1Tensor$"},
	{"turns at a product that begin anew", "../nn/program/matmul.go",
		"goesOn := accumulates", "goesOn := accumulates && false", "TestG1Tensor$"},
	{"sections of a product that take their turns in another order", "../nn/program/tensorrules.go",
		"{{{i * width, (i + 1) * width}}}", "{{{(a.sections - 1 - i) * width, (a.sections - i) * width}}}", "TestG1Tensor$"},
	{"a part's channels of images with the weights of others", "../nn/program/tensor.go",
		"start: (i*n.Shape[want.axis] + first) *", "start: (i*n.Shape[want.axis] + 0*first) *", "TestTensorDivisions$"},
	{"blocks of a convolution's gradient added in another order", "../nn/program/tensorconv.go",
		"first: from * rows * width, stride", "first: (from + 1) % d.count * rows * width, stride", "TestTensorDivisions$"},
	{"a block of a convolution's gradient that begins elsewhere", "../nn/program/tensorconv.go",
		"(n*v.OH+read.From)*v.OW*v.O+first", "(n*v.OH+read.From)*v.OW*v.O+blocks[0][0]", "TestTensorDivisions$"},
	{"a slice's state from another place", "state.go",
		"slice{w.state[slot], w.runs}.set(", "slice{w.state[slot], nil}.set(", "TestResume"},
	{"a version of the weights that is freed early", "schedule/asynchronous.go",
		"			for slot < len(held) && last[held[slot]] > i {\n", "			for slot < len(held) && slot < 1 {\n", "TestWindowsAgainstNumPy$"},
	{"a version of the weights that is not kept", "window.go",
		"			r.stash(stash)\n", "			_ = stash\n", "TestWindowsAgainstNumPy$"},
	{"B on the newest weights in place of its F's", "window.go",
		"		chunk.use(program.Params, slots[i])\n", "		if tk.Kind == schedule.Forward {\n			chunk.use(program.Params, slots[i])\n		} else {\n			chunk.use(program.Params, 0)\n		}\n", "TestWindowsAgainstNumPy$"},
	{"B on weights that are older than its F's", "schedule/asynchronous.go",
		"		t.Version = read[t.Micro]\n", "		if t.Version = read[t.Micro]; t.Kind == Backward {\n			t.Version = max(0, t.Version-1)\n		}\n", "TestWindowsAgainstNumPy$"},
	{"an update before its B", "schedule/asynchronous.go",
		"		all = append(all, t)\n		if t.Kind == Backward && t.Micro+1 == ends[newest] {\n			newest++\n			all = append(all, Task{Kind: Update, Micro: t.Micro, Version: newest})\n		}\n",
		"		if t.Kind == Backward && t.Micro+1 == ends[newest] {\n			newest++\n			all = append(all, Task{Kind: Update, Micro: t.Micro, Version: newest})\n		}\n		all = append(all, t)\n", "TestWindowsAgainstNumPy$"},
	{"a drain that does not reset the staleness", "window.go",
		"		chunk.use(program.Params, slots[i])\n", "		if _, versions := schedule.WeightSlots(list); tk.Version == 0 && slots[i] == 0 && r.trainer.steps > 0 {\n			slots[i] = versions - 1\n		}\n		chunk.use(program.Params, slots[i])\n", "TestWindowsAgainstNumPy$"},
	{"an update's number that is its window's", "window.go",
		"		r.move(r.number(mini), scale)\n", "		r.move(r.number(0), scale)\n", "TestWindowOfOneStageIsPlainTraining$"},
	{"gradients that go on from one mini-batch to the next", "window.go",
		"		if !last {\n", "		if !last && false {\n", "TestWindowsAgainstNumPy$"},
	{"a matrix product that splits k", "../nn/program/matmul.go",
		"				kernel.Gemm(rows, cols, r[1]-r[0], in[0][i*ars+r[0]*acs:], ars, acs, in[1][r[0]*brs+j0*bcs:], brs, bcs, into, ld, goesOn, scratch, epi)\n",
		`				half := r[0] + (r[1]-r[0])/2
				if !goesOn {
					half = r[0]
				}
				part := make([]float32, rows*cols)
				kernel.Gemm(rows, cols, half-r[0], in[0][i*ars+r[0]*acs:], ars, acs, in[1][r[0]*brs+j0*bcs:], brs, bcs, part, cols, false, scratch, nil)
				kernel.Gemm(rows, cols, r[1]-half, in[0][i*ars+half*acs:], ars, acs, in[1][half*brs+j0*bcs:], brs, bcs, into, ld, goesOn, scratch, epi)
				for i := 0; goesOn && i < rows; i++ {
					kernel.Add(into[i*ld:][:cols], into[i*ld:][:cols], part[i*cols:])
				}
`, "TestG1$"},
	{"buffers that overlap for one instruction", "../nn/program/liveness.go",
		"for t := b.first; t <= b.last; t++ {\n			alive", "for t := b.first; t < b.last; t++ {\n			alive", "TestG1$"},
	{"a buffer that dies too early", "../nn/program/assemble.go",
		"				b.last = t\n", "				b.last = max(b.first, t-1)\n", "TestG1$"},
	{"a workspace one float too long", "plan/need.go",
		"	in.workspace(workspace)\n", "	in.workspace(workspace + 1)\n", "TestG1$"},
	{"a workspace one float too short", "plan/need.go",
		"	in.workspace(workspace)\n", "	in.workspace(workspace - 1)\n", "TestG1$"},
	{"a workspace one float too short for predictions", "plan/need.go",
		"PredictionOffset(c[k]) + c[k].Span[program.Out]", "PredictionOffset(c[k]) + c[k].Span[program.Out] - 1", "TestPurposesG2"},
	{"slots of the training's sizes alone", "plan/need.go",
		"			of.hold(s, m%count, all[m][k].Span[s])\n", "			of.hold(s, m%count, 0)\n", "TestPurposesG2"},
	{"the residuals of another micro-batch", "tasks.go",
		"r.use(program.Residual, r.residual.Of(m))", "r.use(program.Residual, 0)", "TestG1$"},
	{"what another micro-batch has kept for W", "tasks.go",
		"	r.use(program.Between, r.between.Of(m))\n", "	r.use(program.Between, 0)\n", "TestG1$"},
	{"residuals of W that are free after I", "tasks.go",
		"	if r.splits() && t.Kind == schedule.Backward {\n", "	if r.splits() {\n", "TestG1$"},
	{"the chunks' gradients of a group before the last has added to them", "step.go",
		"r.added == len(r.chunks)*r.Ends[r.group]", "r.added == r.Ends[r.group]", "TestG1Replicas$"},
	{"a shared weight twice in the norm", "norm.go",
		"if p.Rate == 0 || w.twin {", "if p.Rate == 0 {", "TestChunksShareALargeWeight"},
	{"one chunk's copy of a shared weight without the others' gradients", "reduce.go",
		"	for _, j := range copies {\n		copy(r.dev.weights[j].grads[0], sum)\n	}\n", "	copy(r.dev.weights[copies[0]].grads[0], sum)\n", "TestChunksShareAWeight$"},
	{"the uses of a shared weight in the order of a device's chunks, the last first", "reduce.go",
		"	for _, j := range r.dev.index[param] {\n		all = append(all,", "	copies := r.dev.index[param]\n	for i := range copies {\n		j := copies[len(copies)-1-i]\n		all = append(all,", "TestTranslationG1$"},
	{"one chunk's copy of a table without the gathered gradient", "tied.go",
		"				copy(r.dev.weights[j].grads[0], w.grads[0])\n", "				_ = j\n", "TestGatherTied$"},
	{"W in descending order", "schedule/zerobubble.go",
		"			add(BackwardWeights, x-last)\n", "			if x >= last {\n				add(BackwardWeights, micro-1-(x-last))\n			}\n", "TestG1$"},
	{"a shared weight's gradient that I and W both add", "../nn/program/split.go",
		"			p.input = append(p.input, s)\n			continue\n", "			p.input = append(p.input, s)\n			if !accumulates {\n				continue\n			}\n", "TestG1$"},
	{"statistics that a recomputation counts again", "tasks.go",
		"Again: what != firstTime,", "Again: false,", "TestG1Images$"},
	{"an update of the moving averages a micro-batch", "tasks.go",
		"		err := r.exec(ctx, prog, t, firstTime)\n		r.keepTallies(m)\n",
		`		err := r.exec(ctx, prog, t, firstTime)
		if r.purpose == plan.Training {
			r.dev.moveStatistics()
			for _, m := range r.dev.moving {
				clear(m.tally)
			}
		}
`, "TestMovingAverages"},
	{"moving averages by the last micro-batch alone", "tasks.go",
		"		err := r.exec(ctx, prog, t, firstTime)\n		r.keepTallies(m)\n",
		`		for _, m := range r.dev.moving {
			clear(m.tally)
		}
		err := r.exec(ctx, prog, t, firstTime)
`, "TestMovingAverages"},
	{"statistics of replicas in another order", "meet.go",
		"	for from := first + 1; from < end; from++ {\n", "	for from := end - 1; from > first; from-- {\n", "TestWideBatchNormByDefinition"},
	{"a recomputation that meets again", "plan/compile.go",
		"		return st.Keep.Again()\n", "		return st.Keep\n", "TestMeetingsOfAStep"},
	{"a gradient centred by the replica's own sums", "../nn/graph/batchnorm.go",
		"if g.OverReplicas { // the", "if false { // the", "TestWideBatchNormAgainstPyTorch"},
	{"an evaluation by the micro-batch's statistics", "../nn/batchnorm.go",
		"if !t.Train {", "if false {", "TestEvaluateImages"},
	{"a convolution's weight gradient that begins a chain for each micro-batch", "../nn/program/conv.go",
		"		kernel.ConvGradWeight(v, out[0], in[0], in[1], accumulates, part, parts, w.scratch)\n",
		`		dw := make([]float32, len(out[0]))
		kernel.ConvGradWeight(v, dw, in[0], in[1], false, 0, 1, w.scratch)
		for i, d := range dw {
			if i*parts/len(dw) == part && accumulates {
				out[0][i] += d
			} else if i*parts/len(dw) == part {
				out[0][i] = d
			}
		}
`, "TestG1Images$"},
	{"one gradient for a value that leaves a layer twice", "../nn/trace/trace.go",
		"if slices.Contains(out[:i], n) {", "if false {", "TestSameValueTwice"},
	{"a loss of a caller without the mini-batch's count", "../nn/program/norm.go",
		"b.out[0][i] = b.w.env.LossScale", "b.out[0][i] = 1 / float32(len(b.out[0]))", "TestG1OfOwnOps"},
	{"a parameter's gradient that begins a chain for each micro-batch", "../nn/program/elementwise.go",
		"kernel.ColSum(b.out[0][from:to], b.in[0][from:], b.n, to-from, cols)",
		"x := make([]float32, to-from)\n\t\tkernel.ColSum(x, b.in[0][from:], b.n, to-from, cols)\n\t\tkernel.Add(b.out[0][from:to], b.out[0][from:to], x)", "TestG1OfOwnOps"},
	{"a weight's gradient by bands of bfloat16 that begins anew for each micro-batch", "../nn/program/bands.go",
		"				run(band, out[0], source", "				if n+first == 0 {\n					clear(out[0])\n				}\n				run(band, out[0], source", "TestG1BF16Images"},
	{"a dropout that forgets where its block begins", "../nn/program/elementwise.go",
		"perExample(c), b.first, b.step.within)", "perExample(c), b.first*0, b.step.within)", "TestG1BF16$"},
	{"activations of bfloat16 that a boundary keeps in float32", "../nn/program/storage.go",
		"scores || n.Role == graph.Input {\n		return true", "scores || n.Role == graph.Input {\n		return !s.Rounded", "TestG1BF16$"},
	{"values of bfloat16 in the places of results that others still read", "../nn/program/assemble.go",
		"	c.computeInPlace(steps, place)\n", "	for _, s := range steps {\n		for _, n := range s.out {\n			c.inner[n] = true\n		}\n	}\n	c.computeInPlace(steps, place)\n", "TestG1BF16$"},
	{"slots of the optimiser in another order", "state.go",
		"whole := all[slot][w.param].Data", "whole := all[len(w.state)-1-slot][w.param].Data", "TestResume$"},
	{"a restored state that is a step ahead", "state.go",
		"t.steps, t.differentiated, t.compared = s.Steps, false", "t.steps, t.differentiated, t.compared = s.Steps+1, false", "TestResume$"},
	{"a restored state without the average", "state.go",
		"			for slot, values := range s.tensors() {\n", "			for slot, values := range s.tensors()[:len(s.Slots)] {\n", "TestResume$"},
	{"moving averages of the first replica alone", "weights.go",
		"if d.k == on && i < states {", "if d.k == k && i < states && d.at.Replica == 0 {", "TestResume$"},
	{"the state of the first replica alone", "state.go",
		"if d.at.Replica > 0 && !t.net.ShardUpdate {", "if d.at.Replica > 0 {", "TestResume$"},
	{"tensors without a sum", "transport/sockets/frame.go",
		"if raw[0] > 1 || crc32c.Update(", "if raw[0] > 1 || false && crc32c.Update(", "TestWire$"},
	{"headers without a sum", "transport/sockets/frame.go",
		"	if crc32c.Checksum(raw[:summed]) != binary", "	if false && crc32c.Checksum(raw[:summed]) != binary", "TestWire$"},
	{"a lost line that is waited for without a limit", "transport/sockets/line.go",
		"	if l.quiet < patience {\n", "	if l.quiet >= 0 {\n", "TestWire$"},
}

// raceMutants each drop a lock, or hand something over too early. The race detector must notice,
// or a test whose values are wrong.
var raceMutants = []mutant{
	{"an output on its way before F has computed it", "tasks.go",
		`	err := r.timed(ctx, timeline.Forward, m, func() error {
		r.load(st, m)
		err := r.exec(ctx, prog, t, firstTime)
		r.keepTallies(m)
		return err
	})
	if err != nil {
		return err
	}
	if r.isLast() {
		err = r.collect(st, m)
	} else {
		r.output.ready <- m
	}
`, `	if !r.isLast() {
		r.output.ready <- m
	}
	err := r.timed(ctx, timeline.Forward, m, func() error {
		r.load(st, m)
		err := r.exec(ctx, prog, t, firstTime)
		r.keepTallies(m)
		return err
	})
	if err != nil {
		return err
	}
	if r.isLast() {
		err = r.collect(st, m)
	}
`, "TestG1$"},
	{"slots that are free before B has read them", "tasks.go",
		`	if err := r.timed(ctx, kind, m, func() error { return r.exec(ctx, plan.ProgramOf(r.stage(m), t), t, again) }); err != nil {
		return err
	}
	r.residual.Free(m)
	r.poison(program.Residual)
	if r.splits() && t.Kind == schedule.Backward {
		r.lasting.Free(m)
		r.poison(program.Lasting)
	}
	r.poison(program.Statistics)
	r.release(program.In, m%r.input.slots, &r.input)
	if !r.isLast() {
		r.release(program.DOut, m%r.gradient.slots, &r.gradient)
	}
`, `	r.release(program.In, m%r.input.slots, &r.input)
	if !r.isLast() {
		r.release(program.DOut, m%r.gradient.slots, &r.gradient)
	}
	if err := r.timed(ctx, kind, m, func() error { return r.exec(ctx, plan.ProgramOf(r.stage(m), t), t, again) }); err != nil {
		return err
	}
	r.residual.Free(m)
	if r.splits() && t.Kind == schedule.Backward {
		r.lasting.Free(m)
	}
`, "TestG1$"},
	{"a sum of tied gradients in the place of one that is still sent", "reduce.go",
		"	sender.Go(func() {\n", "	ctx = context.WithoutCancel(ctx)\n	new(sync.WaitGroup).Go(func() {\n", "TestG1$"},
	{"traffic without a lock", "links.go",
		"	t.mu.Lock()\n	defer t.mu.Unlock()\n	i := slices.IndexFunc", "	i := slices.IndexFunc", "TestG1$"},
	{"predictions of several replicas at once", "tasks.go",
		"			r.predicted.Lock() // by one replica at a time\n			defer r.predicted.Unlock()\n", "", "TestEvaluateReplicas$"},
	{"a kernel whose other threads are not waited for", "../nn/program/pool.go",
		"	for spins := 1; p.pending.Load() != 0; spins++ {\n", "	for spins := 1; spins < 0; spins++ {\n", "TestG1$"},
	{"a thread that says it is done before it begins", "../nn/program/pool.go",
		"		p.attempt(part)\n		p.pending.Add(-1)\n", "		p.pending.Add(-1)\n		p.attempt(part)\n", "TestG1$"},
	{"a sender that does not wait for the copy", "transport/channels.go",
		"	<-p.taken // the receiver copies without waiting for anything of the session\n", "", "TestG1$"},
	{"lines made without a lock", "transport/channels.go",
		"	m.mu.Lock()\n	defer m.mu.Unlock()\n	l := m.lines[r.Line()]\n", "	l := m.lines[r.Line()]\n", "TestG1$"},
	{"a queue of frames without a lock", "transport/sockets/peer.go",
		"	p.mu.Lock()\n	p.queue = append(p.queue, f)\n	p.mu.Unlock()\n", "	p.queue = append(p.queue, f)\n", "TestReplicasInProcesses$"},
	{"gatherings without a lock", "transport/sockets/session.go",
		"	s.mu.Lock()\n	defer s.mu.Unlock()\n	if r := s.last[f.Place]; r", "	if r := s.last[f.Place]; r", "TestReplicasInProcesses$"},
}

// TestMutantsApply: what mutants replace is in the code, which need not be compiled to know that.
func TestMutantsApply(t *testing.T) {
	for _, all := range [][]mutant{mutants, raceMutants} {
		for i, m := range all {
			source := must(os.ReadFile(m.file))(t)
			mutated(t, m.file, string(source), all, []int{i})
		}
	}
}

// TestMutants makes one defect at a time and checks that the tests fail, already under -short.
func TestMutants(t *testing.T) {
	mutate(t, mutants, []string{"--- FAIL", "panic", "fatal error"}, nil)
}

// TestRaceMutants does that with defects in what goroutines share, under the race detector.
func TestRaceMutants(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc, which the race detector needs")
	}
	mutate(t, raceMutants, []string{"DATA RACE", "--- FAIL"}, []string{"CGO_ENABLED=1", "GORACE=halt_on_error=1"}, "-race", "-tags=purego")
}

// mutate runs mutants, which must print one of the signs of a failure.
func mutate(t *testing.T, mutants []mutant, signs, environment []string, flags ...string) {
	testkit.Deep(t)
	if os.Getenv(mutantVariable) != "" {
		t.Skip("this is a mutant")
	}
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command")
	}
	environment = slices.Clip(append(os.Environ(), environment...)) // to which parallel runs append
	program := schemata(t, goCommand, mutants, environment, flags)
	run := func(i int, test string) (out string, err error) {
		cmd := exec.CommandContext(t.Context(), program, "-test.short", "-test.timeout=5m", "-test.failfast", "-test.run", test)
		cmd.Env = append(environment, mutantVariable+"="+active(i))
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	tests := map[string]bool{}
	for i, m := range mutants {
		if !testkit.InShard(i) {
			continue
		}
		tests[m.test] = true
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			out, err := run(i, m.test)
			switch {
			case err == nil:
				t.Errorf("the tests pass all the same:\n%s", out)
			case !slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(out, sign) }):
				t.Errorf("no test has failed: %v\n%s", err, out)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		if out, err := run(-1, strings.Join(slices.Sorted(maps.Keys(tests)), "|")); err != nil {
			t.Fatalf("the tests fail without a mutation: %v\n%s", err, out)
		}
	})
}
