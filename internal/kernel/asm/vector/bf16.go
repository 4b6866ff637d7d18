package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// bf16 emits the conversions between float32 and bfloat16. The elements of a
// last, partial vector are converted one at a time, since AVX2 has no masks for
// 16 bits.
func bf16(m machine) {
	m.conversion("widen", "func(dst []float32, src []uint16)", "sets dst to the bfloat16s of src.", 4, 2,
		func(src, dst Mem) {
			v := m.vec()
			VPMOVZXWD(src, v)
			VPSLLD(U8(16), v, v)
			VMOVUPS(v, dst)
		},
		func(src, dst Mem) {
			x := GP32()
			MOVWLZX(src, x)
			SHLL(U8(16), x)
			MOVL(x, dst)
		})

	var half, one, quiet, upper reg.VecVirtual
	constants := func() { half, one, quiet = m.registerOf(0x7fff), m.registerOf(1), m.registerOf(1<<22) }
	// nearest returns the vector at src rounded, in its upper halves: NaNs, which
	// are not equal to themselves, get the quiet bit instead.
	nearest := func(src Mem) reg.VecVirtual {
		v, odd, nan := m.vec(), m.vec(), m.vec()
		VMOVUPS(src, v)
		VPSRLD(U8(16), v, odd)
		m.and(one, odd, odd)
		VPADDD(half, odd, odd)
		VPADDD(v, odd, odd)
		m.or(quiet, v, nan)
		m.choose(m.compare(unordered, v, v, m.vec()), nan, odd, odd)
		return odd
	}
	// nearestScalar is the same for one element.
	nearestScalar := func(src Mem) reg.GPVirtual {
		x, odd, size := GP32(), GP32(), GP32()
		number, done := label("number"), label("rounded")
		MOVL(src, x)
		MOVL(x, size)
		ANDL(U32(0x7fffffff), size)
		CMPL(size, U32(0x7f800000))
		JLS(LabelRef(number))
		ORL(U32(1<<22), x)
		JMP(LabelRef(done))
		Label(number)
		MOVL(x, odd)
		SHRL(U8(16), odd)
		ANDL(U32(1), odd)
		ADDL(odd, x)
		ADDL(U32(0x7fff), x)
		Label(done)
		return x
	}

	m.conversion("narrow", "func(dst []uint16, src []float32)", "sets dst to src rounded to bfloat16.", 2, 4,
		func(src, dst Mem) {
			v := nearest(src)
			VPSRLD(U8(16), v, v)
			if m.wide() {
				VPMOVDW(v, dst)
				return
			}
			x := XMM()
			VPACKUSDW(m.upperHalf(v), v.AsX(), x)
			VMOVUPS(x, dst)
		},
		func(src, dst Mem) {
			x := nearestScalar(src)
			SHRL(U8(16), x)
			MOVW(x.As16(), dst)
		}, constants)

	m.conversion("roundBF16", "func(dst, src []float32)", "sets dst to src rounded to bfloat16.", 4, 4,
		func(src, dst Mem) {
			v := nearest(src)
			m.and(upper, v, v)
			VMOVUPS(v, dst)
		},
		func(src, dst Mem) {
			x := nearestScalar(src)
			ANDL(U32(0xffff0000), x)
			MOVL(x, dst)
		}, func() {
			constants()
			upper = m.registerOf(0xffff0000)
		})
}

// conversion emits a kernel over the elements of dst, whose size and that of
// src's are given in bytes: whole vectors, then single elements.
func (m machine) conversion(name, signature, doc string, to, from int, vector, scalar func(src, dst Mem), prepare ...func()) {
	m.kernel(name, signature, doc, func() {
		dst, src, n := base("dst"), base("src"), length("dst")
		for _, f := range prepare {
			f()
		}
		at := func(j int) (s, d Mem) {
			return Mem{Base: src, Disp: j * from}, Mem{Base: dst, Disp: j * to}
		}
		loop := func(count int, body func()) {
			top, done := label("loop"), label("done")
			Label(top)
			CMPQ(n, I32(count))
			JLT(LabelRef(done))
			body()
			ADDQ(I32(count*from), src)
			ADDQ(I32(count*to), dst)
			SUBQ(I32(count), n)
			JMP(LabelRef(top))
			Label(done)
		}
		const unroll = 2
		loop(unroll*m.lanes, func() {
			for j := range unroll {
				vector(at(j * m.lanes))
			}
		})
		loop(m.lanes, func() { vector(at(0)) })
		loop(1, func() { scalar(at(0)) })
	})
}

func (m machine) or(a, b, dst reg.VecVirtual) {
	if m.wide() {
		VPORD(a, b, dst)
		return
	}
	VPOR(a, b, dst)
}
