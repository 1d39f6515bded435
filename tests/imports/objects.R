library(llamaherd)
# Results as people save them who have tibble and dplyr. `objects` is the folder.
local({
  plain <- data.frame(text = c("a", "b", "c"), label = factor(c("x", "y", "x")))
  plain[paste0("column_", 1:20)] <- 1
  coding <- list(
    text = "text",
    label = "label",
    names = c("x", "y"),
    needs = c("text", "label"),
    columns = c(label = "label"),
    codebook = list(type = "label")
  )
  as_coded <- getNamespace("llamaherd")$as_coded
  frames <- list(
    plain = plain,
    tibble = tibble::as_tibble(plain),
    grouped = dplyr::group_by(tibble::as_tibble(plain), label),
    rowwise = dplyr::rowwise(tibble::as_tibble(plain))
  )
  for (name in names(frames)) {
    saveRDS(
      as_coded(frames[[name]], coding),
      file.path(objects, paste0(name, ".rds"))
    )
  }
})
