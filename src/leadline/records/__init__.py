"""The small vocabulary that both wings share: plain values, no behaviour beyond their own meaning."""
