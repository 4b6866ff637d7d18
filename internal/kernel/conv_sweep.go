package kernel

// A sweep moves a kernel over images. It is a convolution, or one phase of its
// input's gradient: pixels of dx that are a stride apart meet the same taps,
// which are a stride apart as well, and successive pixels of dy.
//
// It is a matrix product. A has a line for each pixel of the destination and an
// element for each (tap, channel of the source). In channels-last images the
// taps of a row of the kernel are side by side, so a line of A consists of
// runs, one for each row of taps, and is read in place. Pixels at the edges of
// the image lack taps; all those that lack the same taps form a region, where
// the lines of A are at constant distances from column to column, from row to
// row and from example to example. A tile goes along the direction that fills
// it best.
type sweep struct {
	n           int   // examples
	down, along reach // rows and columns
	k, j        int   // channels of the source and of the destination

	first      int // offset of the destination's first pixel
	dn, dp, dq int // distances to the next example, row and pixel

	w             lines // of a tap: j lines of k
	wFirst        int   // offset of the first tap in w
	wDown, wAlong int   // distances to the next tap
	flipped       bool  // the taps' order is not that of w's steps
}

func (c *Window) sweep() sweep {
	down, along := c.forward()
	return sweep{
		n:    c.N,
		down: down, along: along,
		k: c.C, j: c.O,
		dn: c.OH * c.OW * c.O, dp: c.OW * c.O, dq: c.O,
		w:     lines{line: 1, step: c.O},
		wDown: c.KW * c.C * c.O, wAlong: c.C * c.O,
	}
}

// phaseSweep is the part of dx with the pixels (i+p*StrideH, j+q*StrideW).
func (c *Window) phaseSweep(i, j int) sweep {
	down, along := c.phase(i, j)
	tap := c.C * c.O
	return sweep{
		n:    c.N,
		down: down, along: along,
		k: c.O, j: c.C,
		first: (i*c.W + j) * c.C,
		dn:    c.H * c.W * c.C, dp: c.StrideH * c.W * c.C, dq: c.StrideW * c.C,
		w:      lines{line: c.O, step: 1},
		wFirst: (down.tap*c.KW + along.tap) * tap,
		wDown:  down.next * c.KW * tap, wAlong: along.next * tap,
		flipped: true,
	}
}

func (s *sweep) depth() int { return s.down.taps * s.along.taps * s.k }

func (s *sweep) scratch(parts int) int {
	columns := 0
	for part := range parts {
		j0, j1, _, _ := s.cut(part, parts)
		columns = max(columns, j1-j0)
	}
	return planned.convScratch(s.depth(), columns, s.down.taps)
}

// cut returns the columns and the rows (of all examples' images) of a part.
// Parts that are cut along rows each pack all of B; parts that are cut along
// columns may each pack all of A.
func (s *sweep) cut(part, parts int) (j0, j1, r0, r1 int) {
	pixels, rows := s.n*s.down.count*s.along.count, s.n*s.down.count
	if s.j >= parts*planned.cols && (pixels < s.j || rows < parts) {
		j0, j1 = share(s.j, planned.cols/2, part, parts)
		return j0, j1, 0, rows
	}
	r0, r1 = share(rows, 1, part, parts)
	return 0, s.j, r0, r1
}

func (s *sweep) run(dst, src, w []float32, part, parts int, scratch []float32) {
	j0, j1, r0, r1 := s.cut(part, parts)
	if j0 == j1 || r0 == r1 {
		return
	}
	g, k := &gemm, s.depth()
	if k == 0 {
		s.zero(dst, j0, j1, r0, r1)
		return
	}
	buffers, kc, nc := g.convBuffers(k, j1-j0, s.down.taps, scratch)
	s.w.x = w
	readB := !s.flipped && g.strided && (s.j <= g.cols || (r1-r0)*s.along.count <= 128 && s.j < cacheWay)
	b := block{packed: buffers.b, aPacked: buffers.a, dst: dst, src: src, inStep: s.j}
	b.runs.table = buffers.runs
	for b.j0 = j0; b.j0 < j1; b.j0 += nc {
		b.nb = min(nc, j1-b.j0)
		b.whole = 0
		if readB {
			b.whole = b.nb / (g.cols / 2) * (g.cols / 2)
		}
		for b.k0 = 0; b.k0 < k; b.k0 += kc {
			b.k1 = min(k, b.k0+kc)
			if b.whole > 0 {
				b.in = w[b.k0*s.j+b.j0:]
			}
			for j := b.whole; j < b.nb; j += g.cols {
				s.packB(g, b.j0+j, min(g.cols, b.nb-j), b.k0, b.k1, b.packed[(j-b.whole)*(b.k1-b.k0):])
			}
			// Whole examples, and the partial ones before and after them.
			for r := r0; r < r1; {
				n, p := r/s.down.count, r%s.down.count
				examples, rows := 1, min(s.down.count-p, r1-r)
				if rows == s.down.count {
					examples = (r1 - r) / rows
				}
				s.regions(g, &b, n, n+examples, p, p+rows)
				r += examples * rows
			}
		}
	}
}

// zero clears columns [j0,j1) of rows [r0,r1).
func (s *sweep) zero(dst []float32, j0, j1, r0, r1 int) {
	for r := r0; r < r1; r++ {
		for q := range s.along.count {
			clear(dst[s.first+r/s.down.count*s.dn+r%s.down.count*s.dp+q*s.dq:][j0:j1])
		}
	}
}

// packB packs steps [k0,k1) of up to a panel's columns.
func (s *sweep) packB(g *gemmTable, j, count, k0, k1 int, dst []float32) {
	if !s.flipped {
		g.pack(g.cols, count, k1-k0, s.w.from(j, k0), dst)
		return
	}
	for k := k0; k < k1; {
		tap, channel := k/s.k, k%s.k
		t, u := tap/s.along.taps, tap%s.along.taps
		n := min(s.k-channel, k1-k)
		o := s.w
		o.x = o.x[s.wFirst+t*s.wDown+u*s.wAlong:]
		g.pack(g.cols, count, n, o.from(j, channel), dst[(k-k0)*g.cols:])
		k += n
	}
}

// regions multiplies the block by the rows [p0,p1) of examples [n0,n1).
func (s *sweep) regions(g *gemmTable, b *block, n0, n1, p0, p1 int) {
	for p := p0; p < p1; {
		t0, t1, pEnd := s.down.run(p)
		pEnd = min(pEnd, p1)
		for q := 0; q < s.along.count; {
			u0, u1, qEnd := s.along.run(q)
			to := s.first + n0*s.dn + p*s.dp + q*s.dq + b.j0
			from := 0
			inside := t0 < t1 && u0 < u1
			if inside {
				from = ((n0*s.down.size+s.down.source(p, t0))*s.along.size + s.along.source(q, u0)) * s.k
				s.findRuns(b, t0, t1, u0, u1)
			}
			d := [3]direction{
				{qEnd - q, s.along.stride * s.k, s.dq},
				{pEnd - p, s.down.stride * s.along.size * s.k, s.dp},
				{n1 - n0, s.down.size * s.along.size * s.k, s.dn},
			}
			switch {
			case inside && len(b.runs.table) > 0:
				load := (t0*s.along.taps+u0)*s.k < b.k0
				b.region(g, d, from+b.runs.first, to, load)
			case !inside && b.k0 == 0:
				for i := range d[2].count {
					for j := range d[1].count {
						for l := range d[0].count {
							clear(b.dst[to+i*d[2].to+j*d[1].to+l*d[0].to:][:b.nb])
						}
					}
				}
			}
			q = qEnd
		}
		p = pEnd
	}
}

// findRuns lists the runs of the block that the taps [t0,t1)x[u0,u1) have.
func (s *sweep) findRuns(b *block, t0, t1, u0, u1 int) {
	b.runs.table = b.runs.table[:0]
	for t := t0; t < t1; t++ {
		tap := t * s.along.taps
		k0, k1 := (tap+u0)*s.k, (tap+u1)*s.k
		from, to := max(k0, b.k0), min(k1, b.k1)
		if from < to {
			b.runs.add((t-t0)*s.along.size*s.k+from-k0, from-b.k0, to-from, 1)
		}
	}
}
