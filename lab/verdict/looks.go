package verdict

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// levels returns the nominal level of each look: a two-sided test at each of them errs with
// probability Level in all. Each side spends what O'Brien and Fleming's boundaries would (Lan and
// DeMets, Biometrika 70, 1983), at half of Level:
//
//	spent(t) = 2 - 2 Phi(z(1 - Level/4) / sqrt(t))
//
// of the fraction t of the seeds. For looks at 3 and 5 seeds and 0.05 it returns 0.0076 and
// 0.0476. The levels are for normal statistics; each is used with Student's t at its seeds.
func (d Design) levels() []float64 {
	last := float64(d.Looks[len(d.Looks)-1])
	z := distuv.UnitNormal.Quantile(1 - d.Level/4)
	p := &path{}
	levels, before := make([]float64, len(d.Looks)), 0.0
	for i, n := range d.Looks {
		t := float64(n) / last
		spent := 2 * distuv.UnitNormal.Survival(z/math.Sqrt(t))
		levels[i] = 2 * distuv.UnitNormal.Survival(p.step(t, spent-before))
		before = spent
	}
	return levels
}

// path is the density of a Brownian motion that has crossed no upper boundary yet, on a grid. The
// lower boundary is left out: with one side of 0.025 a path that crosses both is too rare to count.
type path struct {
	time    float64
	at      []float64 // the grid
	density []float64
}

// step moves on to a time and returns the boundary, in standard deviations of the motion at that
// time, above which a share of all paths crosses there for the first time.
func (p *path) step(time, share float64) float64 {
	const points, widest = 1000, 8.0
	sd := math.Sqrt(time)
	grid, density := make([]float64, points+1), make([]float64, points+1)
	for i := range grid {
		x := (2*float64(i)/points - 1) * widest * sd
		grid[i] = x
		if p.at == nil {
			density[i] = distuv.Normal{Sigma: sd}.Prob(x)
			continue
		}
		move := distuv.Normal{Sigma: math.Sqrt(time - p.time)}
		width := p.at[1] - p.at[0]
		for j, from := range p.at {
			if p.density[j] > 0 {
				density[i] += p.density[j] * move.Prob(x-from) * width
			}
		}
	}
	width, tail, i := grid[1]-grid[0], 0.0, points
	for ; i > 0 && tail+density[i]*width < share; i-- {
		tail += density[i] * width
	}
	// The boundary is within a cell, whose density is taken as even.
	above := (share - tail) / density[i] // the part of the cell, as a length
	boundary := grid[i] + width/2 - above
	clear(density[i+1:])
	density[i] *= 1 - above/width
	p.time, p.at, p.density = time, grid, density
	return boundary / sd
}
