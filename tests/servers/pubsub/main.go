// A server with the API of Pub/Sub on loopback: Google's own, for tests.
//
// It prints its port, and serves until its input ends.
package main

import (
	"bufio"
	"fmt"
	"os"

	"cloud.google.com/go/pubsub/pstest"
)

func main() {
	port := 0
	if len(os.Args) > 1 {
		fmt.Sscanf(os.Args[1], "%d", &port)
	}
	server := pstest.NewServerWithPort(port)
	defer server.Close()
	fmt.Println(server.Addr)
	bufio.NewReader(os.Stdin).ReadString('\n')
}
