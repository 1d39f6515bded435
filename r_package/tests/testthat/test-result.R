local_result <- function(env = parent.frame()) {
  context <- local_context(env)
  prompts <- c(a = "x", b = "fail badly", c = "raw two\nlines", d = "y")
  suppressWarnings(generate_parallel(context, prompts))
}

test_that("results print", {
  result <- local_result()
  expect_page(result)
  expect_page(print(unname(result), n = 2))
  expect_page(attr(result, "stats"))
  long <- suppressWarnings(generate_parallel(local_context(), strrep("word ", 50)))
  expect_output(print(long, width = 40))
  prompts <- c("x", "y\n")
  names(prompts) <- c(strrep("a long name ", 20), strrep("\u732b", 100))
  named <- generate_parallel(local_context(), prompts)
  expect_page(print(named, width = 60))
  lines <- utils::capture.output(print(named, width = 80))
  expect_lte(max(nchar(lines, "width")), 80)
  expect_match(lines[[2]], " x!$")
  names(named)[2] <- ""
  expect_output(print(named), "[2]", fixed = TRUE)
})

test_that("subsetting keeps what belongs to the elements", {
  result <- local_result()
  part <- result[c("d", "b")]
  expect_s3_class(part, "llamaherd_result")
  expect_identical(plain(part), c(d = "y!", b = NA))
  expect_identical(attr(part, "errors"), c(NA, "badly"))
  expect_identical(attr(part, "complete"), c(TRUE, FALSE))
  expect_identical(attr(part, "usage")$n_prompt_tokens, c(4L, 2L))
  expect_identical(attr(part, "hashes")$output[[2]], NA_character_)
  expect_identical(result[], result)
  expect_identical(plain(result[-1]), plain(result)[-1])
  expect_identical(plain(result[!is.na(result)]), plain(result)[c(1, 3, 4)])
  expect_identical(result[["c"]], "two\nlines")
  expect_identical(plain(rev(result)), rev(plain(result)))
})

test_that("results are as good as plain text", {
  result <- local_result()
  expect_identical(result == "x!", c(a = TRUE, b = NA, c = FALSE, d = FALSE))
  expect_identical("x!" == result, result == "x!")
  expect_identical(result == result, c(a = TRUE, b = NA, c = TRUE, d = TRUE))
  expect_identical(as.character(result), c("x!", NA, "two\nlines", "y!"))
  expect_identical(c(result, "z"), c(plain(result), "z"))
  expect_identical(paste0(result[1], "?"), "x!?")
  expect_identical(levels(factor(result)), c("two\nlines", "x!", "y!"))
})

test_that("what is edited or written into is plain text", {
  result <- local_result()
  text <- plain(result)
  edits <- list(
    trimws = \(x) trimws(x, "left", "x"),
    toupper = toupper,
    sub = \(x) sub("X", "z", x, ignore.case = TRUE),
    substr = \(x) substr(x, 1, 1),
    iconv = \(x) iconv(sub("x", "\u00e9", x), "UTF-8", "latin1"),
    ifelse = \(x) ifelse(is.na(x), "none", x),
    replace = \(x) replace(x, 2, "none"),
    rep = \(x) rep(x, 2),
    c = \(x) c(x, x),
    unlist = \(x) unlist(list(x, x)),
    "[<-" = \(x) `[<-`(x, is.na(x), value = "none"),
    "[[<-" = \(x) `[[<-`(x, "b", value = "none"),
    "$<-" = \(x) `[<-`(x, 1:2, value = rev(x)[1:2]),
    "is.na<-" = \(x) `is.na<-`(x, value = 1),
    "length<-" = \(x) `length<-`(x, value = 2)
  )
  for (name in names(edits)) {
    edited <- edits[[name]](result)
    expected <- edits[[name]](text)
    expect_identical(plain(edited), expected, info = name)
    expect_identical(edited[1:2], expected[1:2], info = name)
    expect_identical(capture.output(print(edited)), capture.output(print(expected)))
    table <- as.data.frame(edited)
    expect_true(all(unlist(table) %in% expected), info = name)
    expect_length(table, 1)
  }
  # An assignment that changes no text keeps all attributes.
  expect_identical(trimws(result), result)
  expect_named(attributes(trimws(as.character(result))), NULL)
})

test_that("the package hides none of R's functions", {
  base <- c("base", "stats", "graphics", "grDevices", "utils", "methods")
  theirs <- unlist(lapply(base, getNamespaceExports))
  expect_identical(intersect(getNamespaceExports("llamaherd"), theirs), character())
})

test_that("the one answer of a call is shown as it is if it needs more than a line", {
  result <- local_result()
  whole <- "<llamaherd_result> 1 of 1 prompt answered\nc\ntwo\nlines"
  expect_output(print(result[3]), whole, fixed = TRUE)
  expect_output(print(result[1]), "^<[^>]*> 1 of 1 prompt answered\na x!$")
})

test_that("the summary of a result has its statistics, and str() its texts", {
  context <- local_context()
  answers <- generate_parallel(context, c(a = "one", b = "two"))
  expect_s3_class(summary(answers), "llamaherd_stats")
  expect_match(capture.output(summary(answers))[[1]], "2 prompts")
  expect_identical(summary(toupper(answers)), summary(toupper(plain(answers))))
  data <- data.frame(id = 1:2)
  data$answer <- answers
  expect_length(capture.output(utils::str(data)), 3)
})

test_that("objects that print as a page are their own summary", {
  book <- fixed(list(question = "q"), class = "llamaherd_codebook")
  expect_identical(summary(book), book)
})

test_that("results become tables", {
  result <- local_result()
  table <- as.data.frame(result)
  counts <- paste0("n_", c("prompt", "reused", "generated"), "_tokens")
  columns <- c("name", "text", "finish_reason", "complete", "error", counts)
  expect_named(table, c(columns, "seed", "partial"))
  expect_identical(table$text, as.character(result))
  expect_identical(table$error, c(NA, "badly", NA, NA))
  expect_identical(table$complete, c(TRUE, FALSE, FALSE, TRUE))
  expect_identical(nrow(as.data.frame(unname(result))), 4L)

  column <- data.frame(id = 1:4, label = result)
  expect_identical(names(column), c("id", "label"))
  column$again <- result
  expect_identical(as.character(column$again), as.character(result))
})

test_that("results fit into tibbles", {
  skip_if_not_installed("tibble")
  skip_if_not_installed("vctrs")
  result <- local_result()
  expect_identical(tibble::as_tibble(result)$text, as.character(result))
  table <- tibble::tibble(id = 1:4, label = result)
  expect_identical(as.character(table[2:3, ]$label), as.character(result)[2:3])
  expect_output(print(table), "x!")
  text <- plain(result)
  expect_identical(vctrs::vec_c(result, result), c(text, text))
  expect_identical(vctrs::vec_c(result, "z"), c(text, "z"))
  lines <- utils::capture.output(print(table))
  expect_match(lines[[3]], "<int> +<chr>")
  expect_match(lines, "x!", all = FALSE, fixed = TRUE)
  expect_identical(vctrs::vec_slice(result, 2:3), text[2:3])
  expect_identical(vctrs::vec_assign(result, 2, "none"), replace(text, 2, "none"))
})

test_that("dplyr edits results to plain text", {
  skip_if_not_installed("dplyr")
  skip_if_not_installed("tibble")
  result <- local_result() # not inside tibble(), whose frame never ends
  table <- tibble::tibble(id = 1:4, label = unname(result))
  text <- plain(table$label)
  edited <- dplyr::mutate(
    table,
    up = toupper(label),
    none = dplyr::if_else(is.na(label), label, "some"),
    known = dplyr::coalesce(label, "none")
  )
  expect_identical(plain(edited$up), toupper(text))
  expect_identical(edited$none, ifelse(is.na(text), NA, "some"))
  expect_identical(edited$known, ifelse(is.na(text), "none", text))
  expect_identical(dplyr::filter(table, id > 2)$label, text[3:4])
  expect_identical(dplyr::arrange(table, -id)$label, rev(text))
  expect_identical(dplyr::bind_rows(table, table)$label, c(text, text))
})

test_that("results know when each prompt ran, and so do parts of them", {
  result <- generate_parallel(local_context(), c("a", "b", "c"))
  timing <- attr(result, "timing")
  expect_named(timing, c("queue_s", "first_token_s", "wall_s"))
  expect_identical(nrow(timing), 3L)
  expect_identical(nrow(attr(result[2:3], "timing")), 2L)
})
