# Builds the site of the R package into build/site/r, without a network.
options(pkgdown.internet = FALSE)
package <- file.path(getwd(), "r_package")
library(llamaherd) # help pages ask it whether their examples run
# From the package that `make setup` has installed.
pkgdown::build_site(
  package,
  examples = FALSE,
  devel = FALSE,
  install = FALSE,
  new_process = FALSE,
  preview = FALSE
)
