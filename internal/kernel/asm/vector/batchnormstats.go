package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func batchNormStats(m machine) {
	signature := "mean, scale, moments []float32, rows, cols, ld int, eps float32)"
	m.kernel("normStats", "func("+signature, "combines the moments of chunks.", func() { normStats(m, false) })
	m.kernel("normStatsTally", "func(count, tallyMean, tallySquares []float64, "+signature,
		"is normStats that merges the moments into a tally as well.", func() { normStats(m, true) })

	m.kernel("normTotals", "func(total, totalX, sums []float32, chunks, cols, ld int)", "adds the sums of chunks.", func() {
		total, totalX, sums := base("total"), base("totalX"), base("sums")
		chunks, cols, ld := integer("chunks"), integer("cols"), integer("ld")
		m.doubleBlocks(cols, func(d doubles) {
			at, count := GP64(), GP64()
			MOVQ(d.i, at)
			MOVQ(chunks, count)
			sum, sumX := m.zero(), m.zero()
			repeat(count, func() {
				VADDPD(d.singles(sums, at), sum, sum)
				ADDQ(ld, at)
				VADDPD(d.singles(sums, at), sumX, sumX)
				ADDQ(ld, at)
			})
			d.storeSingles(sum, total)
			d.storeSingles(sumX, totalX)
		})
	})
}

// normChunk and its logarithm: the kernel package's NormChunk.
const normChunk, normChunkBits = 128, 7

// normStats: all chunks but the last have the same number of rows.
func normStats(m machine, tally bool) {
	mean, scale, moments := base("mean"), base("scale"), base("moments")
	cols, ld := integer("cols"), integer("ld")
	rows, full := integer("rows"), GP64()
	MOVQ(rows, full)
	DECQ(full)
	SHRQ(U8(normChunkBits), full)
	last := GP64()
	MOVQ(full, last)
	SHLQ(U8(normChunkBits), last)
	NEGQ(last)
	ADDQ(rows, last)
	n, nLast := m.splat64(rows), m.splat64(last)
	chunk := GP64()
	MOVQ(I32(normChunk), chunk)
	nFull := m.splat64(chunk)

	m.doubleBlocks(cols, func(d doubles) {
		at, count := GP64(), GP64()
		// each emits body for the full chunks, then last for the last one. When
		// they run, at is the chunk's squares; each chunk advances it by ld.
		each := func(body, last func()) {
			skip := label("last")
			MOVQ(d.i, at)
			MOVQ(full, count)
			TESTQ(count, count)
			JZ(LabelRef(skip))
			repeat(count, func() {
				body()
				ADDQ(ld, at)
			})
			Label(skip)
			last()
		}
		sum := m.zero()
		each(func() {
			VADDPD(d.singles(moments, at), sum, sum)
			ADDQ(ld, at)
		}, func() {
			v := d.singles(moments, at)
			VMULPD(nFull, sum, sum)
			VFMADD231PD(nLast, v, sum)
			VDIVPD(n, sum, sum)
		})
		d.storeSingles(sum, mean)

		within, between := m.zero(), m.zero()
		distance := func() reg.VecVirtual {
			v := d.singles(moments, at)
			VSUBPD(sum, v, v)
			ADDQ(ld, at)
			VADDPD(d.singles(moments, at), within, within)
			return v
		}
		each(func() {
			v := distance()
			VFMADD231PD(v, v, between)
		}, func() {
			v := distance()
			VFMADD231PD(nFull, between, within)
			VMULPD(v, v, v)
			VFMADD231PD(nLast, v, within)
		})

		v, one := m.vec(), m.vec()
		VDIVPD(n, within, v)
		x := XMM()
		VMOVSS(address("eps"), x)
		VCVTSS2SD(x, x, x)
		VBROADCASTSD(x, one)
		VADDPD(one, v, v)
		VSQRTPD(v, v)
		MOVQ(I32(1), count)
		one = m.splat64(count)
		VDIVPD(v, one, v)
		d.storeSingles(v, scale)

		if !tally {
			return
		}
		p := base("count")
		before := d.load(p)
		share, all := m.vec(), m.vec()
		VADDPD(n, before, all)
		d.store(all, p)
		VDIVPD(all, n, share) // of this micro-batch
		p = base("tallyMean")
		old := d.load(p)
		VSUBPD(old, sum, sum)
		VFMADD231PD(share, sum, old)
		d.store(old, p)
		p = base("tallySquares")
		old = d.load(p)
		VADDPD(within, old, old)
		VMULPD(share, before, before)
		VMULPD(sum, sum, sum)
		VFMADD231PD(before, sum, old)
		d.store(old, p)
	})
}
