package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// doubles is a block of lanes/2 columns from i that are processed in float64:
// one vector of float64s, or half a vector of float32s.
type doubles struct {
	machine
	i            reg.Register
	live, live64 reg.Register // the lanes to touch, as float32 and as float64; nil for all
}

// doubleBlocks calls body for code that covers columns 0..n.
func (m machine) doubleBlocks(n reg.Register, body func(d doubles)) {
	width := I32(m.lanes / 2)
	i, left := GP64(), GP64()
	XORQ(i, i)
	MOVQ(n, left)
	top, rest, done := label("loop"), label("rest"), label("done")
	SUBQ(width, left)
	JL(LabelRef(rest))
	Label(top)
	body(doubles{m, i, nil, nil})
	ADDQ(width, i)
	SUBQ(width, left)
	JGE(LabelRef(top))
	Label(rest)
	ADDQ(width, left)
	JZ(LabelRef(done))
	x := XMM()
	VMOVD(left.(reg.GPVirtual).As32(), x)
	if m.wide() {
		count, k := YMM(), K()
		VPBROADCASTD(x, count)
		VPCMPGTD(lanesFrom0(), count, k)
		body(doubles{m, i, k, k})
	} else {
		mask, mask64 := XMM(), YMM()
		VPBROADCASTD(x, mask)
		VPCMPGTD(lanesFrom0(), mask, mask)
		VPMOVSXDQ(mask, mask64)
		body(doubles{m, i, mask, mask64})
	}
	Label(done)
}

// singles loads float32s, zero in dead lanes.
func (d doubles) singles(p, at reg.Register) reg.VecVirtual {
	v, from := d.vec(), Mem{Base: p, Index: at, Scale: 4}
	d.masked(d.live, func() { VCVTPS2PD(from, v) }, func() { VCVTPS2PD_Z(from, d.live, v) }, func() {
		x := XMM()
		VMASKMOVPS(from, d.live, x)
		VCVTPS2PD(x, v)
	})
	return v
}

// storeSingles rounds v to float32.
func (d doubles) storeSingles(v reg.VecVirtual, p reg.Register) {
	to := Mem{Base: p, Index: d.i, Scale: 4}
	var half reg.Register
	if d.wide() {
		half = YMM()
		VCVTPD2PS(v, half)
	} else {
		half = XMM()
		VCVTPD2PSY(v, half)
	}
	d.masked(d.live, func() { VMOVUPS(half, to) }, func() { VMOVUPS(half, d.live, to) }, func() { VMASKMOVPS(half, d.live, to) })
}

// load loads float64s, zero in dead lanes.
func (d doubles) load(p reg.Register) reg.VecVirtual {
	v, from := d.vec(), Mem{Base: p, Index: d.i, Scale: 8}
	d.masked(d.live64, func() { VMOVUPD(from, v) }, func() { VMOVUPD_Z(from, d.live64, v) }, func() { VMASKMOVPD(from, d.live64, v) })
	return v
}

func (d doubles) store(v reg.VecVirtual, p reg.Register) {
	to := Mem{Base: p, Index: d.i, Scale: 8}
	d.masked(d.live64, func() { VMOVUPD(v, to) }, func() { VMOVUPD(v, d.live64, to) }, func() { VMASKMOVPD(v, d.live64, to) })
}

// splat64 returns n as a float64 in all lanes.
func (m machine) splat64(n reg.Register) reg.VecVirtual {
	v := m.zero()
	VCVTSI2SDQ(n, v.AsX(), v.AsX())
	VBROADCASTSD(v.AsX(), v)
	return v
}
