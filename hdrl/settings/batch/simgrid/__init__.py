"""Platform files of SimGrid: hosts, links, zones and routes, as every simulator here reads them."""
