package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// packRows writes the packing of lines that are side by side: the columns of a
// row-major B, the rows of a transposed A.
func packRows(m machine) {
	TEXT("gemmPackRows"+m.name, NOSPLIT, "func(width, count, k int, src []float32, stride int, dst []float32)")
	widths := []string{}
	for _, vectors := range m.packs {
		widths = append(widths, fmt.Sprint(vectors*m.lanes))
	}
	Doc("gemmPackRows"+m.name+" sets dst[p*width+i] to src[p*stride+i] for p < k and i < count,",
		"and to zero for count <= i < width. The width is "+strings.Join(widths, " or ")+".")
	Pragma("noescape")
	count := Load(Param("count"), GP64())
	k := Load(Param("k"), GP64())
	src := Load(Param("src").Base(), GP64())
	stride := Load(Param("stride"), GP64())
	dst := Load(Param("dst").Base(), GP64())
	for i, mask := range m.masks {
		m.setMask(mask, count, i*m.lanes)
	}
	SHLQ(U8(2), stride)
	row := func(vectors int) string { return fmt.Sprintf("row%d", vectors) }
	for _, vectors := range m.packs[1:] {
		CMPQ(place(Param("width")), U8(vectors*m.lanes))
		JEQ(LabelRef(row(vectors)))
	}
	size := 4 * m.lanes
	for _, vectors := range m.packs {
		Label(row(vectors))
		for i := range vectors {
			m.load(Mem{Base: src, Disp: size * i}, m.masks[i], m.vec[i])
		}
		for i := range vectors {
			VMOVUPS(m.vec[i], Mem{Base: dst, Disp: size * i})
		}
		ADDQ(stride, src)
		ADDQ(U8(vectors*size), dst)
		DECQ(k)
		JNZ(LabelRef(row(vectors)))
		VZEROUPPER()
		RET()
	}
}
