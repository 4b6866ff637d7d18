package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func gradRow(machine string, v []VecPhysical, bytes int) {
	TEXT("attentionGradRow"+machine, NOSPLIT, "func(n int, ds, p *float32, d, scale float32)")
	Doc("attentionGradRow" + machine + " is attentionTable.gradRow.")
	Pragma("noescape")
	n := Load(Param("n"), GP64())
	ds := Load(Param("ds"), GP64())
	p := Load(Param("p"), GP64())
	d, scale, x := v[0], v[1], v[2]
	splat("d", d)
	splat("scale", scale)
	Label("loop")
	VMOVUPS(Mem{Base: ds}, x)
	VSUBPS(d, x, x)
	VMULPS(Mem{Base: p}, x, x)
	VMULPS(scale, x, x)
	VMOVUPS(x, Mem{Base: ds})
	ADDQ(Imm(uint64(bytes)), ds)
	ADDQ(Imm(uint64(bytes)), p)
	SUBQ(Imm(uint64(bytes/4)), n)
	JG(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

func splat(param string, v VecPhysical) {
	b, err := Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(b.Addr, v)
}
