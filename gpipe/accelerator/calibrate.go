package accelerator

import (
	"maps"
	"math"

	"gpipebench/internal/stats"
	"gpipebench/nn/program"
)

// Calibration fits a roofline to instructions that were timed on this machine: for
// each kind of operation the rates of arithmetic and of traffic, and an overhead.
// The zero value is ready. Watch, Tasks and Moved add measurements. Package gpipe, which
// runs what is timed, is above this one, so the caller connects the two: see
// gpipe.Trainer.Watch.
type Calibration struct {
	instrs map[*program.Instr][]float64
	whole  map[string][]workTime // of Clear and Update
	tasks  []float64             // seconds of a task besides its instructions, one for each network
}

// workTime is how long something took, and how much there was to do.
type workTime struct{ flops, bytes, weights, seconds float64 }

// Watch records one run of an instruction.
func (c *Calibration) Watch(in *program.Instr, seconds float64) {
	if c.instrs == nil {
		c.instrs = map[*program.Instr][]float64{}
	}
	c.instrs[in] = append(c.instrs[in], seconds)
}

// Tasks records what a network's tasks take besides their instructions. Each of steps
// has the seconds of all tasks of one step with micro micro-batches, all recomputed.
// The network's instructions must have been watched before, in other steps, and no
// other network's; Join combines several networks. A network whose instructions take
// almost no time gives the best figure.
func (c *Calibration) Tasks(steps [][]float64, micro int) {
	var instrs float64 // each runs once a micro-batch
	for _, times := range c.instrs {
		instrs += stats.Median(times)
	}
	var beyond []float64
	for _, tasks := range steps {
		var sum float64
		for _, t := range tasks {
			sum += t
		}
		beyond = append(beyond, max(0, sum-float64(float64(micro)*instrs))/float64(len(tasks)))
	}
	if len(beyond) > 0 {
		c.tasks = append(c.tasks, stats.Median(beyond))
	}
}

// Join adds another calibration's measurements.
func (c *Calibration) Join(other *Calibration) {
	if c.instrs == nil {
		c.instrs, c.whole = map[*program.Instr][]float64{}, map[string][]workTime{}
	}
	maps.Copy(c.instrs, other.instrs)
	for name, s := range other.whole {
		c.whole[name] = append(c.whole[name], s...)
	}
	c.tasks = append(c.tasks, other.tasks...)
}

// Moved records one run of Clear or Update and the bytes that it moved.
func (c *Calibration) Moved(op string, bytes, seconds float64) {
	if c.whole == nil {
		c.whole = map[string][]workTime{}
	}
	c.whole[op] = append(c.whole[op], workTime{bytes: bytes, seconds: seconds})
}

// Fit sets the accelerator's rates by operation. Its padding ([Accelerator.Lanes])
// must be set before. Each instruction counts once, with the median of its runs.
func (c *Calibration) Fit(a *Accelerator) {
	samples := map[string][]workTime{}
	for in, times := range c.instrs {
		w := workTime{flops: a.arithmetic(in), seconds: stats.Median(times)}
		for m := range in.Moves() {
			w.bytes += a.traffic(m)
			if isWeight(m) {
				w.weights += a.traffic(m)
			}
		}
		name := opName(in.Op)
		samples[name] = append(samples[name], w)
	}
	maps.Copy(samples, c.whole)
	a.Ops = map[string]OpRate{}
	for name, s := range samples {
		a.Ops[name] = fitRate(s)
	}
	if len(c.tasks) > 0 {
		a.Ops["task"] = OpRate{Overhead: digits(stats.Median(c.tasks))}
	}
}

// Shapes sets the accelerator's times by shape: for each shape, take the median of
// each instruction's runs, then the mean of these medians. Times measured with a
// network on one device then predict its time on several.
func (c *Calibration) Shapes(a *Accelerator) {
	sums, counts := map[string]float64{}, map[string]float64{}
	for in, times := range c.instrs {
		shape := in.Shape()
		sums[shape] += stats.Median(times)
		counts[shape]++
	}
	a.Shapes = map[string]float64{}
	for shape, sum := range sums {
		a.Shapes[shape] = digits(sum / counts[shape])
	}
}

// digits rounds to four significant digits.
func digits(x float64) float64 {
	if x == 0 {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(x)))
	return math.Round(x*scale) / scale
}

// fitTerms is the number of OpRate's terms: overhead, FLOPs, traffic, weights.
const fitTerms = 4

// fitRounds are enough for the weights to settle.
const fitRounds = 20

// fitRate finds the terms, none of them negative, that minimise the sum of the squared
// errors, each divided by its fitted time. With these weights (those of a Poisson
// regression) the fitted times add up to the measured ones; dividing by the measured
// times would favour runs that happened to be short.
func fitRate(s []workTime) OpRate {
	rows := make([]fitRow, len(s))
	var largest [fitTerms]float64
	for i, w := range s {
		rows[i] = fitRow{[fitTerms]float64{1, w.flops, w.bytes, w.weights}, w.seconds, 1 / w.seconds}
		for j, x := range rows[i].x {
			largest[j] = max(largest[j], x)
		}
	}
	var best [fitTerms]float64
	for range fitRounds {
		best = fitTermsOf(rows, largest)
		for i := range rows {
			// An instruction that a fit makes almost free must not outweigh all others.
			rows[i].weight = 1 / max(rows[i].at(best), rows[i].seconds/100)
		}
	}
	inverse := func(x float64) float64 {
		if x == 0 {
			return 0
		}
		return digits(1 / x)
	}
	return OpRate{FLOPs: inverse(best[1]), Bandwidth: inverse(best[2]), Weights: inverse(best[3]), Overhead: digits(best[0])}
}

// fitTermsOf is the best fit over all subsets of the terms.
func fitTermsOf(rows []fitRow, largest [fitTerms]float64) (best [fitTerms]float64) {
	least := math.Inf(1)
	var whole float64
	for _, row := range rows {
		whole += float64(row.weight * row.seconds * row.seconds)
	}
	// Bit j: term j is used. The overhead, the lowest bit, is tried last, so that a
	// rate is preferred where both explain the times equally well.
	for _, overhead := range []int{0, 1} {
		for rates := 0; rates < 1<<(fitTerms-1); rates++ {
			x, ok := solve(rows, largest, rates<<1|overhead)
			if !ok {
				continue
			}
			var sum float64
			for _, row := range rows {
				e := row.at(x) - row.seconds
				sum += float64(row.weight * e * e)
			}
			if sum < float64(least*(1-1e-6))-float64(1e-12*whole) {
				best, least = x, sum
			}
		}
	}
	return best
}

// fitRow is one instruction: how much there is of each term, and how long it took.
type fitRow struct {
	x       [fitTerms]float64
	seconds float64
	weight  float64 // of the squared error
}

// at is the time that terms give.
func (r *fitRow) at(terms [fitTerms]float64) (seconds float64) {
	for j, x := range terms {
		seconds += float64(r.x[j] * x)
	}
	return seconds
}

// solve is the least-squares solution with some terms only; false if there is
// none, or a term is not positive.
func solve(rows []fitRow, largest [fitTerms]float64, terms int) (x [fitTerms]float64, ok bool) {
	var which []int
	for j := range fitTerms {
		if terms&(1<<j) != 0 {
			if largest[j] == 0 {
				return x, false
			}
			which = append(which, j)
		}
	}
	// The normal equations, with columns scaled to 1, by Gauss-Jordan elimination.
	n := len(which)
	m := make([][]float64, n)
	var whole float64
	for _, row := range rows {
		whole += row.weight
	}
	for i := range m {
		m[i] = make([]float64, n+1)
		for _, row := range rows {
			r := row.weight / whole * row.x[which[i]] / largest[which[i]]
			for j := range n {
				m[i][j] += r * row.x[which[j]] / largest[which[j]]
			}
			m[i][n] += float64(r * row.seconds)
		}
	}
	for i := range n {
		if m[i][i] < 1e-12 {
			return x, false
		}
		for k := n; k >= i; k-- {
			m[i][k] /= m[i][i]
		}
		for r := range n {
			if r == i {
				continue
			}
			for k := n; k >= i; k-- {
				m[r][k] -= float64(m[r][i] * m[i][k])
			}
		}
	}
	for i, j := range which {
		if x[j] = m[i][n] / largest[j]; !(x[j] > 0) {
			return x, false
		}
	}
	return x, n > 0
}
