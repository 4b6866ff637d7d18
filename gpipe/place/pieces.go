package place

// Pieces are a network's pieces, counted from 0 in the order of the layers, and where
// they are in every replica. The chunks of a device are its pieces in this order.
type Pieces struct {
	places []Place // of each piece, of the first replica
	pieces [][]int // of each device
	before []int   // of each device: how many chunks the devices before it have
}

// NewPieces returns pieces; piece s is on device on[s].
func NewPieces(devices int, on []int) Pieces {
	p := Pieces{make([]Place, len(on)), make([][]int, devices), make([]int, devices)}
	for s, d := range on {
		p.places[s] = Place{Stage: d, Chunk: len(p.pieces[d])}
		p.pieces[d] = append(p.pieces[d], s)
	}
	for d := 1; d < devices; d++ {
		p.before[d] = p.before[d-1] + len(p.pieces[d-1])
	}
	return p
}

// Len is their number.
func (p Pieces) Len() int { return len(p.places) }

// Devices is the number of devices that have them.
func (p Pieces) Devices() int { return len(p.pieces) }

// At is where a replica has a piece.
func (p Pieces) At(replica, piece int) Place {
	at := p.places[piece]
	at.Replica = replica
	return at
}

// On are the pieces that a device has, in order.
func (p Pieces) On(device int) []int { return p.pieces[device] }

// Piece is the one that is at a place.
func (p Pieces) Piece(at Place) int { return p.pieces[at.Stage][at.Chunk] }

// Index is the position of a place among all of all replicas, in the order of [Place.Compare].
func (p Pieces) Index(at Place) int {
	return at.Replica*len(p.places) + p.before[at.Stage] + at.Chunk
}
