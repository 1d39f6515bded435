# Jobs of cron and of clusters often run in the C locale. The tests use another process, because the
# locale of a running R and the encoding of paths in a running Python cannot be changed.

in_c_locale <- function(code, folder) {
  script <- withr::local_tempfile(fileext = ".R")
  code <- c(
    "options(warn = 2)",
    sprintf("setwd(\"%s\")", folder),
    "library(llamaherd)",
    code
  )
  writeLines(code, script)
  suppressWarnings(system2(
    file.path(R.home("bin"), "Rscript"),
    c("--vanilla", shQuote(script)),
    stdout = TRUE,
    stderr = TRUE,
    env = "LC_ALL=C"
  ))
}

test_that("labels and names of files keep their umlauts in the C locale", {
  skip_if_no_llamaherd()
  skip_on_os("windows")
  folder <- withr::local_tempdir()
  lines <- in_c_locale(
    r"(
wealth <- "Verm\u00f6gen"
book <- codebook("Which?", stats::setNames(c("", ""), c(wealth, "Sport")))
write_codebook(book, "b\u00fccher.yaml")
cat("same", read_codebook("b\u00fccher.yaml")$hash == book$hash, "\n")
cat("hash", book$hash, "\n")
data <- data.frame(text = letters[1:4], label = rep(c(wealth, "Sport"), 2))
data[[paste0("p_", wealth)]] <- c(0.9, 0.2, 0.8, 0.4)
data$p_Sport <- 1 - data[[3]]
gold <- gold_sample(data, 4, text = text, label = label, seed = 1)
gold <- read_gold(data.frame(id = gold$ids, k = data$label), gold)
write_gold(gold, "g\u00f6ld.csv")
coding <- list(text = "text", names = names(book$labels), run_json = "{}")
coding$probs <- stats::setNames(paste0("p_", coding$names), coding$names)
coded <- structure(data, llamaherd = coding)
cat("probs", unlist(llamaherd:::coded_for_python(coded, data$label)$probs[1]), "\n")
options(warn = -1)
fit <- estimate(data, gold, predictions = "probs", methods = "dsl")
cat("coef", coef(fit), "\n")
path <- document_start("l\u00f6g.txt")
document_end()
)",
    folder
  )
  book <- codebook("Which?", c("Verm\u00f6gen" = "", Sport = ""))
  expect_true("same TRUE " %in% lines)
  expect_true(paste("hash", book$hash, "") %in% lines)
  expect_true("probs 0.9 0.1 " %in% lines, info = paste(lines, collapse = "\n"))
  expect_true("coef 0.5 0.5 " %in% lines, info = paste(lines, collapse = "\n"))
  files <- c("b\u00fccher.yaml", "g\u00f6ld.csv", "l\u00f6g.txt")
  files <- c(files, paste0(files[2:3], c(".json", ".sha256")))
  expect_setequal(list.files(folder), files)
})
