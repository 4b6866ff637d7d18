package arena

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages: matrix products walk several matrices at
// once and miss the TLB otherwise. Only a wish, so its failure is none.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
