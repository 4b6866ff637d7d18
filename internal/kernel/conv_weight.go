package kernel

// convGradWeight multiplies, for each tap, the pixels of x that the tap meets,
// as a transposed A, with dy. Steps along k are the pixels of dy; those of a
// row whose tap is inside the image form a run.
func (g *gemmTable) convGradWeight(c *Window, dw, x, dy []float32, accumulate bool, part, parts int, scratch []float32) {
	m, k := c.KH*c.KW*c.C, c.N*c.OH*c.OW
	i0, i1, j0, j1 := cutGradWeight(c, part, parts)
	if i0 == i1 || j0 == j1 {
		return
	}
	if k == 0 {
		if !accumulate {
			clearColumns(dw[i0*c.O:], i1-i0, c.O, j0, j1)
		}
		return
	}
	buffers, kc, nc := g.convBuffers(k, c.O, c.N*c.OH, scratch)
	readB := g.strided && (c.O <= 2*g.cols || m <= 128 && c.O < cacheWay)
	r := runs{table: buffers.runs}
	for ; j0 < j1; j0 += nc {
		nb := min(nc, j1-j0)
		whole := 0
		if readB {
			whole = nb / (g.cols / 2) * (g.cols / 2)
		}
		for k0 := 0; k0 < k; k0 += kc {
			k1 := min(k, k0+kc)
			for j := whole; j < nb; j += g.cols {
				g.packRows(g.cols, min(g.cols, nb-j), k1-k0, dy[k0*c.O+j0+j:], c.O, buffers.b[(j-whole)*(k1-k0):])
			}
			for i := i0; i < i1; {
				tap, channel := i/c.C, i%c.C
				channels := min(c.C-channel, i1-i)
				before := c.pixelRuns(&r, tap/c.KW, tap%c.KW, k0, k1)
				to := dw[i*c.O+j0:]
				if len(r.table) > 0 {
					g.tap(c, &r, channels, x[r.first+channel:], dy[(k0+r.row)*c.O+j0:], nb, whole, buffers, k1-k0, to, accumulate || before)
				} else if k1 == k && !before && !accumulate {
					clearColumns(to, channels, c.O, 0, nb)
				}
				i += channels
			}
		}
	}
}

// tap multiplies the runs of a tap for some channels of x.
func (g *gemmTable) tap(c *Window, r *runs, channels int, x, dy []float32, nb, whole int, buffers convBuffers, kb int, to []float32, load bool) {
	rows, step := evenly(channels, g.rows), c.StrideW*c.C
	packed := !g.strided || nb > 2*g.cols && step >= cacheWay
	if packed {
		r.pack(g.lines)
	}
	k, more := r.table[runK], r.table[runInts:]
	for i := 0; i < channels; i += rows {
		mb := min(rows, channels-i)
		a := lines{x[i:], 1, step}
		if packed {
			g.packRuns(g.lines, mb, r, a, buffers.a)
			a = lines{buffers.a, 1, g.lines}
		}
		row := to[i*c.O:]
		if whole > 0 {
			g.panels(mb, whole, k, a.x, a.line, a.step, dy, c.O, g.cols, row, c.O, load, more)
		}
		if whole < nb {
			g.panels(mb, nb-whole, k, a.x, a.line, a.step, buffers.b[r.row*g.cols:], g.cols, g.cols*kb, row[whole:], c.O, load, more)
		}
	}
}

// pixelRuns lists the pixels [k0,k1) of dy whose tap is inside the image, and
// reports whether there is such a pixel before k0.
func (c *Window) pixelRuns(r *runs, kh, kw, k0, k1 int) (before bool) {
	r.table = r.table[:0]
	down, along := c.forward()
	from, to := down.positions(kh)
	left, right := along.positions(kw)
	if from == to || left == right {
		return false
	}
	for row := k0 / c.OW; row*c.OW < k1; row++ {
		n, oh := row/c.OH, row%c.OH
		if oh < from || oh >= to {
			continue
		}
		p0, p1 := max(k0, row*c.OW+left), min(k1, row*c.OW+right)
		if p0 < p1 {
			r.add(((n*c.H+down.source(oh, kh))*c.W+along.source(p0-row*c.OW, kw))*c.C, p0-k0, p1-p0, c.StrideW*c.C)
		}
	}
	return from*c.OW+left < k0
}

// cutGradWeight returns the rows (tap, channel) and the columns of a part.
func cutGradWeight(c *Window, part, parts int) (i0, i1, j0, j1 int) {
	m := c.KH * c.KW * c.C
	if c.O >= parts*planned.cols {
		j0, j1 = share(c.O, planned.cols/2, part, parts)
		return 0, m, j0, j1
	}
	i0, i1 = share(m, 1, part, parts)
	return i0, i1, 0, c.O
}
