# Builds the site of the R package into build/site/r, without a network.
options(pkgdown.internet = FALSE)
# downlit asks CRAN for the addresses of packages that are not installed.
no_packages <- \() data.frame(Package = character(), URL = character())
utils::assignInNamespace("CRAN_urls", no_packages, "downlit")
package <- file.path(getwd(), "r_package")
library(llamaherd) # help pages check with it whether their examples can run
# Uses the package that `make setup` installed.
pkgdown::build_site(
  package,
  examples = FALSE,
  devel = FALSE,
  install = FALSE,
  new_process = FALSE,
  preview = FALSE
)

file.copy("docs/images/shares.png", "build/site/r/shares.png", overwrite = TRUE)

# Debian's pkgdown uses the MathJax on this computer's disk.
pages <- list.files(
  "build/site/r",
  "[.]html$",
  recursive = TRUE,
  full.names = TRUE
)
for (page in pages) {
  text <- readLines(page, encoding = "UTF-8", warn = FALSE)
  text <- gsub(
    "file:///usr/share/javascript/mathjax/MathJax.js",
    "https://cdnjs.cloudflare.com/ajax/libs/mathjax/2.7.5/MathJax.js",
    text,
    fixed = TRUE
  )
  writeLines(text, page, useBytes = TRUE)
}
