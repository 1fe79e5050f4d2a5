package driver

import (
	"fmt"
	"strconv"
)

// Size writes a number of bytes for people, in units of 1024 (IEC 80000-13): "512 B", "1.5
// GiB".
func Size(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	size, i := float64(n)/1024, 0
	for size >= 1024 && i < len(units)-1 {
		size, i = size/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", size, units[i])
}
