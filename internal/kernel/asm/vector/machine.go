package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A machine is a vector instruction set; its name is the suffix of the
// functions' names.
type machine struct {
	name  string
	lanes int // float32 lanes of a vector
}

var (
	avx2   = machine{"AVX2", 8}
	avx512 = machine{"AVX512", 16}
)

func (m machine) wide() bool { return m.lanes == 16 }

func (m machine) vec() reg.VecVirtual {
	if m.wide() {
		return ZMM()
	}
	return YMM()
}

// half returns the register's lower half.
func (m machine) half(v reg.VecVirtual) reg.Register {
	if m.wide() {
		return v.AsY()
	}
	return v.AsX()
}

// upperHalf returns a new register with v's upper half.
func (m machine) upperHalf(v reg.VecVirtual) reg.Register {
	if m.wide() {
		y := YMM()
		VEXTRACTF64X4(U8(1), v, y)
		return y
	}
	x := XMM()
	VEXTRACTF128(U8(1), v, x)
	return x
}

// kernel emits the function name for the machine, and adds it to the tables.
func (m machine) kernel(name, signature, doc string, body func()) {
	if m == avx2 {
		entries = append(entries, entry{name, signature, doc})
	}
	TEXT(name+m.name, 0, signature)
	Doc(name + m.name + " " + doc)
	Pragma("noescape")
	body()
	VZEROUPPER()
	RET()
}

func base(name string) reg.Register    { return Load(Param(name).Base(), GP64()) }
func length(name string) reg.Register  { return Load(Param(name).Len(), GP64()) }
func integer(name string) reg.Register { return Load(Param(name), GP64()) }

// place returns where a parameter or a result is on the stack.
func place(c gotypes.Component) Mem {
	b, err := c.Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

func address(name string) Mem { return place(Param(name)) }

// splat loads a parameter of four bytes into all lanes.
func (m machine) splat(name string) reg.VecVirtual {
	v := m.vec()
	VBROADCASTSS(address(name), v)
	return v
}

// returnScalar stores the lowest lane of v as the function's float32 result.
func (m machine) returnScalar(v reg.VecVirtual) { VMOVSS(v.AsX(), place(ReturnIndex(0))) }

func (m machine) zero() reg.VecVirtual {
	v := m.vec()
	m.clear(v)
	return v
}

// clear zeroes v. For AVX2 it names the whole register, since the allocator
// would otherwise consider the upper half live, and registers are few.
func (m machine) clear(v reg.VecVirtual) {
	if m.wide() {
		VXORPS(v.AsX(), v.AsX(), v.AsX())
		return
	}
	VXORPS(v, v, v)
}

// constants are in read-only memory, by their bits, each repeated to 32 bytes.
var constants = map[uint32]Mem{}

func constantBits(bits uint32) Mem {
	c, ok := constants[bits]
	if !ok {
		c = GLOBL(fmt.Sprintf("splat_%08x", bits), RODATA|NOPTR)
		for i := range 8 {
			DATA(4*i, U32(bits))
		}
		constants[bits] = c
	}
	return c
}

// constant returns an operand that holds x in all lanes: memory for AVX2,
// which has few registers, and a register for AVX-512.
func (m machine) constant(x float32) Op { return m.constantOf(math.Float32bits(x)) }

func (m machine) constantOf(bits uint32) Op {
	if m.wide() {
		return m.registerOf(bits)
	}
	return constantBits(bits)
}

// register is constant for instructions that take no memory operand.
func (m machine) register(x float32) reg.VecVirtual { return m.registerOf(math.Float32bits(x)) }

func (m machine) registerOf(bits uint32) reg.VecVirtual {
	v := m.vec()
	VBROADCASTSS(constantBits(bits), v)
	return v
}

var iotaTable Mem

// lanesFrom0 is the table 0, 1, ... 63 of int32.
func lanesFrom0() Mem {
	if iotaTable.Symbol.Name == "" {
		iotaTable = GLOBL("lane_numbers", RODATA|NOPTR)
		for i := range 64 {
			DATA(4*i, U32(i))
		}
	}
	return iotaTable
}

var labels int

// label returns a name that is new in the file.
func label(name string) string {
	labels++
	return fmt.Sprintf("%s%d", name, labels)
}
