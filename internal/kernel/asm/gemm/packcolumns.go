package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// packColumns writes the packing of lines that are contiguous, a stride apart:
// the rows of a row-major A, the columns of a transposed B. It takes sixteen
// elements, about a cache line, of eight lines at a time.
func packColumns(table Mem) {
	TEXT("gemmPackColumns", NOSPLIT, "func(width, count, k int, src []float32, stride int, dst []float32)")
	Doc("gemmPackColumns sets dst[p*width+i] to src[i*stride+p] for p < k and i < count, and to",
		"zero for count <= i < width, a multiple of 8. The memory after dst[k*width] is overwritten",
		"as if k were the next multiple of 8.")
	Pragma("noescape")
	width, count := place(Param("width")), place(Param("count"))
	k := Load(Param("k"), GP64())
	src := Load(Param("src").Base(), GP64())
	stride := Load(Param("stride"), GP64())
	dst := Load(Param("dst").Base(), GP64())
	pitch := Load(Param("width"), GP64())
	SHLQ(U8(2), stride)
	SHLQ(U8(2), pitch)
	stride3, pitch3 := GP64(), GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	LEAQ(Mem{Base: pitch, Index: pitch, Scale: 2}, pitch3)
	rest := GP64()
	MOVQ(k, rest)
	ANDQ(U8(7), rest)
	setMaskAVX2(table, Y14, rest, 0)
	VEXTRACTF128(U8(1), Y14, X15)

	Label("sixteen")
	group := GP64()
	MOVQ(width, group)
	Label("lines")
	SUBQ(U8(8), group)
	from, to, rows, columns := GP64(), GP64(), GP64(), GP64()
	MOVQ(group, from)
	IMULQ(stride, from)
	ADDQ(src, from)
	LEAQ(Mem{Base: dst, Index: group, Scale: 4}, to)
	MOVQ(count, rows)
	SUBQ(group, rows)
	MOVQ(k, columns)
	CMPQ(columns, U8(16))
	JLE(LabelRef("eight"))
	MOVQ(U32(16), columns)
	Label("eight")
	t := transposition{
		from: address8{from, stride, stride3, GP64()},
		to:   address8{to, pitch, pitch3, GP64()},
	}
	LEAQ(Mem{Base: from, Index: stride, Scale: 4}, t.from.fourth)
	LEAQ(Mem{Base: to, Index: pitch, Scale: 4}, t.to.fourth)
	CMPQ(columns, U8(8))
	JLT(LabelRef("end"))
	t.blocks("whole", rows, nil)
	Label("end")
	t.blocks("part", rows, []Op{X14, X15})
	Label("next")
	ADDQ(U8(32), from)
	LEAQ(Mem{Base: to, Index: pitch, Scale: 8}, to)
	SUBQ(U8(8), columns)
	JG(LabelRef("eight"))
	TESTQ(group, group)
	JNZ(LabelRef("lines"))
	ADDQ(U8(64), src)
	LEAQ(Mem{Base: dst, Index: pitch, Scale: 8}, dst)
	LEAQ(Mem{Base: dst, Index: pitch, Scale: 8}, dst)
	SUBQ(U8(16), k)
	JG(LabelRef("sixteen"))
	VZEROUPPER()
	RET()
}

// An address8 reaches eight places a stride apart.
type address8 struct {
	first, stride, stride3, fourth Register
}

func (a address8) at(i, offset int) Mem {
	m := Mem{Base: a.first, Disp: offset}
	if i >= 4 {
		m.Base = a.fourth
	}
	switch i % 4 {
	case 1:
		m.Index, m.Scale = a.stride, 1
	case 2:
		m.Index, m.Scale = a.stride, 2
	case 3:
		m.Index, m.Scale = a.stride3, 1
	}
	return m
}

type transposition struct {
	from, to address8
}

// blocks writes a block for each number of rows and the choice among them.
func (t transposition) blocks(name string, rows Register, mask []Op) {
	label := func(r int) string { return fmt.Sprintf("%s%d", name, r) }
	CMPQ(rows, U8(8))
	JGE(LabelRef(label(8)))
	for r := 7; r > 0; r-- {
		CMPQ(rows, U8(r))
		JEQ(LabelRef(label(r)))
	}
	for r := range 9 {
		Label(label(r))
		t.block(r, mask)
		JMP(LabelRef("next"))
	}
}

// block transposes eight columns of up to eight rows. The missing rows are
// zero; so are the missing columns if there is a mask, in halves.
//
// Rows i and i+4 meet in one register while they are loaded, which leaves two
// rounds of shuffles within the halves of registers.
func (t transposition) block(rows int, mask []Op) {
	halves := [][]VecPhysical{ymm[0:4], ymm[4:8]}
	pairs, spare := ymm[8:12], X12
	for h, v := range halves {
		for i := range v {
			if i >= rows {
				VXORPS(v[i], v[i], v[i])
				continue
			}
			above, below := t.from.at(i, 16*h), Op(t.from.at(i+4, 16*h))
			if mask == nil {
				VMOVUPS(above, v[i].AsX())
			} else {
				VMASKMOVPS(above, mask[h], v[i].AsX())
			}
			if i+4 >= rows {
				continue
			}
			if mask != nil {
				VMASKMOVPS(below, mask[h], spare)
				below = spare
			}
			VINSERTF128(U8(1), below, v[i], v[i])
		}
		VUNPCKLPS(v[1], v[0], pairs[0])
		VUNPCKLPS(v[3], v[2], pairs[1])
		VUNPCKHPS(v[1], v[0], pairs[2])
		VUNPCKHPS(v[3], v[2], pairs[3])
		for i := 0; i < 4; i += 2 {
			VUNPCKLPD(pairs[i+1], pairs[i], v[i])
			VUNPCKHPD(pairs[i+1], pairs[i], v[i+1])
			VMOVUPS(v[i], t.to.at(4*h+i, 0))
			VMOVUPS(v[i+1], t.to.at(4*h+i+1, 0))
		}
	}
}
